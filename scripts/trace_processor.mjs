// Perfetto's own trace processor, as the page of ui.perfetto.dev runs it (WebAssembly), without a browser.
// usage: node trace_processor.mjs FOLDER
//
// FOLDER holds engine_bundle.js and trace_processor*.wasm. Standard input and output carry what the page and its
// worker tell each other: streams of the messages of trace_processor.proto (TraceProcessorRpcStream).
import { readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { runInThisContext } from "node:vm";

const folder = process.argv[2];

// What the bundle expects of a worker of a page. It reads its program by a request that waits.
globalThis.self = globalThis;
globalThis.location = { href: "https://localhost/" };
globalThis.WorkerGlobalScope = Object;
globalThis.XMLHttpRequest = class {
  open(_method, name) {
    this.name = name;
  }
  send() {
    this.response = readFileSync(join(folder, this.name));
  }
};
console.log = console.error;
runInThisContext(`(function (process) {${readFileSync(join(folder, "engine_bundle.js"), "utf8")}\n})`)();

const port = {
  postMessage(reply) {
    for (let done = 0; done < reply.length; ) done += writeSync(1, reply, done);
  },
};
self.onmessage({ data: port });
for await (const chunk of process.stdin) port.onmessage({ data: new Uint8Array(chunk) });
