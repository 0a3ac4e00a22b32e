// The page: which run, which view, and the time that all of them share.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, exported, type Index, type Run } from "./api";
import { stepKeys } from "./chart";
import { playing, Scrubber } from "./scrubber";
import { cursor, go, moveTo, place, shown, type Span, theme, useStore, whole, zoom } from "./store";
import { Acks } from "./views/acks";
import { Compare, runTitle } from "./views/compare";
import { Figures } from "./views/figures";
import { Flow } from "./views/flow";
import { Live } from "./views/live";
import { Multipath } from "./views/multipath";
import { Network } from "./views/network";
import { Queues } from "./views/queues";
import "./style.css";

const VIEWS = [
  ["network", "Network"],
  ["flow", "Flow"],
  ["queues", "Queues"],
  ["acks", "ACK filter"],
  ["multipath", "Multipath"],
  ["compare", "Compare"],
  ["figures", "Figures"],
] as const;

const HELP: [string, string][] = [
  ["1 – 7", "switch between views"],
  ["Space", "play, pause"],
  ["← →", "move the time cursor; with Shift, ten times as far"],
  ["+ −", "zoom around the cursor"],
  ["0", "show the whole run"],
  ["[ ]", "previous run, next run"],
  ["n p", "in the packet graph: next, previous packet"],
  ["↑ ↓", "in the event list: previous, next event"],
  ["d", "switch between dark and light"],
  ["?", "show or hide this list"],
];

function useTheme(): void {
  const address = useStore(place);
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const settle = () => {
      const look = address.theme === "dark" || address.theme === "light" ? address.theme : system.matches ? "dark" : "light";
      document.documentElement.dataset.theme = look;
      theme.set(look);
    };
    settle();
    system.addEventListener("change", settle);
    return () => system.removeEventListener("change", settle);
  }, [address.theme]);
}

function setWhole(span: Span): void {
  const [begin, end] = span;
  const wide: Span = end > begin ? span : [begin, begin + 1e-3];
  whole.set(wide);
  shown.set(wide);
  const at = Number(place.get().t);
  cursor.set(Number.isFinite(at) && place.get().t ? Math.min(Math.max(at, begin), end) : begin + (wide[1] - wide[0]) / 2);
}

function App() {
  useTheme();
  const address = useStore(place);
  const look = useStore(theme);
  const [index, setIndex] = useState<Index | null>(null);
  const [run, setRun] = useState<Run | null>(null);
  const [trouble, setTrouble] = useState("");
  const [help, setHelp] = useState(false);
  const runs = index?.runs ?? [];
  const chosen = runs.find((it) => it.name === address.run) ?? runs[0];
  const view = VIEWS.some(([name]) => name === address.view) ? address.view! : "network";

  useEffect(() => {
    ask<Index>("index").then(setIndex, (error: Error) => setTrouble(error.message));
  }, []);
  useEffect(() => {
    if (index) document.title = `${index.title ?? index.path} · Ackwright`;
    if (index?.kind === "capture") {
      ask<{ connections: { begin: number; end: number }[] }>("capture", { run: "", port: "" }).then((it) => {
        const begin = Math.min(...it.connections.map((one) => one.begin), Infinity);
        const end = Math.max(...it.connections.map((one) => one.end), -Infinity);
        if (begin <= end) setWhole([begin, end]);
      }, (error: Error) => setTrouble(error.message));
    }
  }, [index]);
  useEffect(() => {
    if (!chosen) return;
    let wanted = true;
    ask<Run>("run", { run: chosen.name }).then(
      (it) => {
        if (!wanted) return;
        const [, end] = whole.get();
        // From run to run of one length the cursor stays.
        if (end !== it.end) setWhole([0, it.end]);
        setTrouble("");
        setRun(it);
      },
      (error: Error) => wanted && setTrouble(error.message),
    );
    return () => {
      wanted = false;
    };
  }, [chosen?.name]);

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return;
      const [from, to] = shown.get();
      const time = cursor.get();
      const number = Number(event.key);
      if (number >= 1 && number <= VIEWS.length && index?.kind === "results") go({ view: VIEWS[number - 1]![0] });
      else if (event.key === " " && !/^(BUTTON|SUMMARY|A)$/.test(at.tagName)) playing.set(!playing.get());
      else if (event.key === "+" || event.key === "=") zoom(time - (time - from) / 2, time + (to - time) / 2);
      else if (event.key === "-") zoom(time - (time - from) * 2, time + (to - time) * 2);
      else if (event.key === "0") shown.set(whole.get());
      else if (event.key === "d") go({ theme: theme.get() === "dark" ? "light" : "dark" });
      else if (event.key === "?") setHelp((it) => !it);
      else if (event.key === "Escape") setHelp(false);
      else if (event.key === "[" || event.key === "]") {
        const next = runs[runs.findIndex((it) => it.name === chosen?.name) + (event.key === "]" ? 1 : -1)];
        if (next) go({ run: next.name });
      } else return stepKeys(event);
      event.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [index, chosen?.name]);

  return (
    <>
      <header class="top">
        <div class="title">
          <h1>{index?.title ?? index?.path ?? "Ackwright"}</h1>
          {index?.kind === "results" && <span class="note wide">{index.path}</span>}
        </div>
        {runs.length > 0 && (
          <label>
            Run{" "}
            <select value={chosen?.name} onChange={(event) => go({ run: event.currentTarget.value })}>
              {runs.map((it) => (
                <option key={it.name} value={it.name}>
                  {runTitle(it)}
                </option>
              ))}
            </select>
          </label>
        )}
        <button type="button" aria-label={look === "dark" ? "Light colours" : "Dark colours"} onClick={() => go({ theme: look === "dark" ? "light" : "dark" })}>
          {look === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" aria-label="Keys" aria-expanded={help} onClick={() => setHelp(!help)}>
          ?
        </button>
        {index?.kind === "results" && (
          <nav aria-label="Views">
            {VIEWS.map(([name, title], number) => (
              <button type="button" key={name} aria-current={view === name ? "page" : undefined} onClick={() => go({ view: name })} title={`Key ${number + 1}`}>
                {title}
              </button>
            ))}
          </nav>
        )}
      </header>
      {help && (
        <section class="card help" aria-label="Keys">
          <h2>Keys</h2>
          <dl>
            {HELP.map(([key, text]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
          <p class="note">In a chart: drag to zoom, double-click to show everything. {exported ? "This page is a file; it contacts no server." : ""}</p>
        </section>
      )}
      <main>
        {trouble && (
          <p class="bad card" role="alert">
            {trouble}
          </p>
        )}
        {(index?.unfinished ?? 0) > 0 && <p class="note card">{index!.unfinished} runs of this sweep are unfinished.</p>}
        {(index?.left_out ?? 0) > 0 && <p class="note card">This page contains the first run of each point, at most eight; {index!.left_out} runs are left out.</p>}
        {index?.kind === "live" && <Live />}
        {index?.kind === "capture" && <Flow run={null} />}
        {index?.kind === "results" && run && (
          <div key={run.name}>
            {view === "network" && <Network run={run} />}
            {view === "flow" && <Flow run={run} />}
            {view === "queues" && <Queues run={run} />}
            {view === "acks" && <Acks run={run} />}
            {view === "multipath" && <Multipath run={run} />}
            {view === "compare" && <Compare index={index} run={run} />}
            {view === "figures" && <Figures run={run} />}
          </div>
        )}
        {index?.kind === "results" && runs.length === 0 && <p class="nothing card">No run of these results is finished.</p>}
      </main>
      {index && index.kind !== "live" && <Scrubber />}
    </>
  );
}

/** The time is part of the address, once it rests. */
let rest = 0;
cursor.listen((time) => {
  clearTimeout(rest);
  rest = setTimeout(() => go({ t: String(+time.toFixed(9)) }), 600) as unknown as number;
});

addEventListener("hashchange", () => {
  const at = Number(place.get().t);
  if (place.get().t && Math.abs(at - cursor.get()) > 1e-8) moveTo(at);
});

render(<App />, document.getElementById("app")!);
