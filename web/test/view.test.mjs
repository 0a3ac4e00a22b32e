// Every view in a real browser, on results of shipped experiments: what stands on the screen is what stands in the files.
// Pictures are compared in pictures.test.mjs.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { ackwright, end, equals, faults, json, json_of, live, number, open, PLACE, results, rowAt, rows, serve, show, still } from "./browser.mjs";

let window_;
let page;
const all = {};

before(async () => {
  all.first = { out: results("first", "first", "duration=6s", "warmup=1s") };
  all.cake = { out: results("cake-ack-filter", "cake", "duration=6s", "warmup=2s", "load=rrul", "filter=ack-filter") };
  all.flap = { out: results("multipath-flap", "flap", "duration=3s", "case=administrator") };
  for (const one of Object.values(all)) one.url = await serve(one.out);
  window_ = await open();
  page = window_.page;
});

after(async () => {
  await window_?.browser.close();
  end();
});

/** The text of the only element that fits. */
async function text(selector) {
  const found = page.locator(selector);
  assert.equal(await found.count(), 1, `${selector}: ${await found.count()} of them`);
  return (await found.textContent()) ?? "";
}

describe("what is shown is what was measured", () => {
  const RUN = "fq_codel-seed-1";

  test("network: use of links and time lines at the time under the cursor", async () => {
    const { out, url } = all.first;
    await show(page, url, { view: "network", run: RUN, t: "3.2" });
    for (const port of ["router.dsl", "client.dsl", "server.lan"]) {
      const link = rowAt((await rows(join(out, `view/${RUN}/link-${port}.parquet`))).map((row) => ({ ...row, time_ns: row.time_ns - 1 })), 3.2);
      const later = (await rows(join(out, `view/${RUN}/link-${port}.parquet`))).find((row) => row.time_ns >= 3.2e9);
      assert.ok(link);
      assert.ok(equals(number(await text(`[data-link="${port}"] [data-sent]`)), later.sent_bits_per_sec), `${port}: ${later.sent_bits_per_sec}`);
      assert.ok(equals(number(await text(`[data-link="${port}"] [data-used]`)), later.utilisation_ppm / 1e4));
      const drawn = Number(await page.locator(`path[data-port="${port}"]`).getAttribute("data-use"));
      assert.ok(equals(drawn, later.utilisation_ppm / 1e6));
    }
    const flow = rowAt(await rows(join(out, `series/${RUN}/flow-download.parquet`)), 3.2);
    assert.ok(equals(number(await text('[data-value="flow-download throughput_bits_per_sec"]')), flow.throughput_bits_per_sec));
    assert.ok(equals(number(await text('[data-value="flow-download cwnd_segments"]')), flow.cwnd_segments));
    assert.ok(equals(number(await text('[data-value="flow-download srtt_us"]')), flow.srtt_us / 1000));
    const queue = rowAt(await rows(join(out, `series/${RUN}/port-router.dsl.parquet`)), 3.2);
    assert.ok(equals(number(await text('[data-value="port-router.dsl queue_packets"]')), queue.queue_packets));
    assert.ok(equals(number(await text('[data-value="port-router.dsl queue_delay_us"]')), queue.queue_delay_us / 1000));
    const ping = rowAt(await rows(join(out, `series/${RUN}/latency-ping.parquet`)), 3.2);
    assert.ok(equals(number(await text('[data-value="latency-ping round_trip_us"]')), ping.round_trip_us / 1000));
  });

  test("flow: segments, retransmissions, a decoded packet, its story", async () => {
    const { out, url } = all.first;
    await show(page, url, { view: "flow", run: RUN });
    const [head, ...lines] = readFileSync(join(out, `flows.csv/${RUN}.csv`), "utf8").trim().split("\n").map((line) => line.split(","));
    const download = Object.fromEntries(head.map((name, place) => [name, lines[0][place]]));
    assert.equal(number(await text("[data-again]")), Number(download.retransmits_segments));
    assert.ok(number(await text("[data-segments]")) > 1_000);
    const story = readFileSync(join(out, `explain/${RUN}-download.txt`), "utf8");
    const why = story.split(/\n\s*time\s/)[0].split(/\s+/).filter(Boolean).join(" ");
    assert.equal((await page.locator("[data-why]").allTextContents()).join(" ").trim(), why);
    const events = story.split("\n").filter((line) => /^\s*\d+\.\d+ s /.test(line));
    assert.equal(await page.locator(".events li").count(), Math.min(events.length, 200));
    // The list jumps, and its first event is the first of the file.
    await page.locator(".events button").first().click();
    const time = Number(await page.locator("output.time").getAttribute("data-time"));
    assert.ok(Math.abs(time - Number.parseFloat(events[0])) < 1e-6, `${time} is ${events[0]}`);
    // By keys: the next packet is decoded.
    await page.locator("canvas.sequence").focus();
    await page.keyboard.press("n");
    await page.waitForSelector("[data-summary]");
    assert.match(await text("[data-summary]"), /^Flags \[.*\], seq \d+:\d+, ack \d+, win \d+, .*length \d+/);
    assert.match(await page.locator(".decoded").innerText(), /TCP options[\s\S]*timestamps/);
  });

  test("flow: zoomed in, each packet is a mark of its own", async () => {
    const { url } = all.first;
    await show(page, url, { view: "flow", run: RUN, t: "2" });
    const wide = Number(await page.locator("canvas.sequence").getAttribute("data-marks"));
    await page.locator("canvas.sequence").focus();
    for (let press = 0; press < 6; press++) await page.keyboard.press("+");
    await page.waitForTimeout(400);
    await still(page);
    assert.equal(await page.getByText("More packets than pixels").count(), 0);
    const near = Number(await page.locator("canvas.sequence").getAttribute("data-marks"));
    assert.ok(near > 20 && near < wide, `${near} of ${wide}`);
  });

  test("queues: lines, the tins of CAKE and what tc showed", async () => {
    const { out, url } = all.cake;
    const [run] = json(join(out, "summary.json")).points[0].runs;
    const record = json(join(out, `runs/${run.name}.json`));
    await show(page, url, { view: "queues", port: "R.wan", t: "4" });
    const [qdisc] = record.tc.find((it) => it.port === "R.wan").json;
    for (const [place, tin] of qdisc.tins.entries()) {
      assert.equal(number(await text(`[data-tin="sent_packets ${place}"]`)), tin.sent_packets);
      assert.equal(number(await text(`[data-tin="ack_drops ${place}"]`)), tin.ack_drops);
    }
    const tins = ["0-Bulk", "1-Best_Effort", "2-Voice"];
    for (const tin of tins) {
      const known = rowAt(await rows(join(out, `view/${run.name}/tin-R.wan-${tin}.parquet`)), 4);
      const shown = number(await text(`[data-value="tin-R.wan-${tin} enqueued_bits_per_sec"]`));
      assert.ok(equals(shown, known.enqueued_bits_per_sec), `${tin}: ${shown}, ${known.enqueued_bits_per_sec}`);
    }
  });

  test("ACK filter: as many as tc counted, by the rules of the file", async () => {
    const { out, url } = all.cake;
    const [run] = json(join(out, "summary.json")).points[0].runs;
    const record = json(join(out, `runs/${run.name}.json`));
    await show(page, url, { view: "acks" });
    const [qdisc] = record.tc.find((it) => it.port === "R.wan").json;
    const counted = qdisc.tins.reduce((sum, tin) => sum + tin.ack_drops, 0);
    assert.ok(counted > 100, `${counted} ACKs were filtered`);
    assert.equal(number(await text('[data-ack-drops="R.wan"]')), counted);
    const gone = await rows(join(out, `view/${run.name}/acks-R.wan.parquet`));
    assert.equal(gone.length, counted);
    for (const [rule, name] of [[0, "first-of-two"], [1, "last-before"]]) {
      const known = gone.filter((row) => row.rule === rule).length;
      if (known > 0) assert.equal(number(await text(`[data-rule="${name}"]`)), known);
    }
  });

  test("multipath: the ring, and who moved when a link went down", async () => {
    const { out, url } = all.flap;
    const [run] = json(join(out, "summary.json")).points[0].runs;
    const { rings } = json(join(out, `view/${run.name}/rings.json`));
    await show(page, url, { view: "multipath" });
    const chosen = rings[Number(await page.locator('[data-view="multipath"] select').inputValue())];
    const [change] = chosen.changes;
    const was = new Map(change.before.flows.map((it) => [it.flow, it.hop]));
    const moved = change.after.flows.filter((it) => was.has(it.flow) && was.get(it.flow) !== it.hop);
    assert.ok(moved.length > 0);
    assert.equal(Number(await page.locator("[data-moved]").getAttribute("data-moved")), moved.length);
    const listed = await page.locator(".ring .tall tbody th").allTextContents();
    assert.deepEqual(listed.sort(), moved.map((it) => it.flow).sort());
    // Whoever had the hop that is gone has moved.
    const gone = change.after.hops.findIndex((hop) => !hop.usable);
    assert.ok(gone >= 0 && change.after.flows.every((it) => it.hop !== gone));
  });

  test("compare and figures: the metrics of the summary", async () => {
    const { out, url } = all.first;
    const { points } = json(join(out, "summary.json"));
    const [a, b] = points.map((point) => point.runs[0].metrics);
    await show(page, url, { view: "compare", run: "fifo-seed-1" });
    await page.waitForSelector("[data-a]");
    for (const name of ["download goodput", "ping latency median", "router.dsl drops"]) {
      assert.ok(equals(number(await text(`[data-a="${name}"]`)), a[name]), name);
      assert.ok(equals(number(await text(`[data-b="${name}"]`)), b[name]), name);
    }
    await show(page, url, { view: "figures", run: "fifo-seed-1" });
    for (const [name, value] of Object.entries(a)) {
      assert.ok(equals(number(await text(`[data-metric="${name}"]`)), value), `${name}: ${value}`);
    }
  });
});

test("results without more: what there is, and what would have made the rest", async () => {
  const out = join(PLACE, "plain");
  ackwright("run", "experiments/first.toml", "--runs", "1", "--set", "duration=3s", "--set", "warmup=1s", "--out", out);
  const url = await serve(out);
  for (const view of VIEWS) {
    await show(page, url, { view });
    if (["network", "flow", "multipath"].includes(view)) assert.match(await page.locator("main").innerText(), /run --view/, view);
  }
  await show(page, url, { view: "flow", t: "2" });
  const flow = rowAt(await rows(join(out, "series/fifo-seed-1/flow-download.parquet")), 2);
  assert.ok(equals(number(await text('[data-value="flow-download cwnd_segments"]')), flow.cwnd_segments));
});

const VIEWS = ["network", "flow", "queues", "acks", "multipath", "compare", "figures"];

describe("for everybody", () => {
  for (const theme of ["light", "dark"]) {
    test(`no serious fault of accessibility, ${theme}`, async () => {
      for (const view of VIEWS) {
        const { url } = view === "multipath" ? all.flap : view === "acks" || view === "queues" ? all.cake : all.first;
        await show(page, url, { view, theme });
        assert.equal(await page.locator("html").getAttribute("data-theme"), theme);
        assert.deepEqual(await faults(page), [], `${view}, ${theme}`);
      }
    });
  }

  test("on a phone nothing is wider than the screen", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    for (const view of VIEWS) {
      const { url } = view === "multipath" ? all.flap : view === "acks" || view === "queues" ? all.cake : all.first;
      await show(page, url, { view, run: view === "flow" ? "fq_codel-seed-1" : "" });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${view} is ${over} pixels too wide`);
      const bar = await page.locator(".scrubber").boundingBox();
      assert.ok(bar && bar.y + bar.height <= 845, `${view}: the scrubber is in sight`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  test("the keyboard does it all", async () => {
    await show(page, all.first.url, { view: "network", t: "2" });
    const time = async () => Number(await page.locator("output.time").getAttribute("data-time"));
    const begun = await time();
    await page.keyboard.press("ArrowRight");
    assert.ok(Math.abs((await time()) - begun - 0.06) < 1e-6, "a hundredth of six seconds");
    await page.keyboard.press("Space");
    await page.waitForTimeout(500);
    await page.keyboard.press("Space");
    // The frame that was already asked for still comes.
    await page.waitForTimeout(100);
    const played = await time();
    assert.ok(played > begun + 0.3, `played until ${played}`);
    await page.waitForTimeout(200);
    assert.equal(await time(), played, "it rests");
    for (const [key, view] of VIEWS.entries()) {
      await page.keyboard.press(String(key + 1));
      await page.waitForFunction((view) => location.hash.includes(`view=${view}`), view);
    }
    await page.keyboard.press("]");
    await page.waitForFunction(() => location.hash.includes("run=fq_codel-seed-1"));
    const look = await page.locator("html").getAttribute("data-theme");
    await page.keyboard.press("d");
    await page.waitForFunction((look) => document.documentElement.dataset.theme !== look, look);
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    await page.keyboard.press("2");
    await page.waitForSelector(".events");
    await page.locator(".events").focus();
    const here = await time();
    await page.keyboard.press("ArrowDown");
    assert.notEqual(await time(), here, "the next event");
  });
});

test("an exported page needs no server and shows the same", async () => {
  const file = join(PLACE, "first.html");
  ackwright("view", all.first.out, "--export", file);
  const { points } = json(join(all.first.out, "summary.json"));
  await show(page, `file://${file}`, { view: "figures", run: "fq_codel-seed-1" });
  const goodput = points[1].runs[0].metrics["download goodput"];
  assert.ok(equals(number(await text('[data-metric="download goodput"]')), goodput));
  for (const view of VIEWS) await show(page, `file://${file}`, { view, run: "fq_codel-seed-1" });
  const flow = rowAt(await rows(join(all.first.out, "series/fq_codel-seed-1/flow-download.parquet")), 3.2);
  await show(page, `file://${file}`, { view: "network", run: "fq_codel-seed-1", t: "3.2" });
  assert.ok(equals(number(await text('[data-value="flow-download cwnd_segments"]')), flow.cwnd_segments));
});

test("a capture alone is shown, too", async () => {
  const url = await serve(join(all.first.out, "pcap/fq_codel-seed-1-server.lan.pcapng"));
  await show(page, url, {});
  await page.waitForSelector("canvas.sequence");
  assert.ok(number(await text("[data-segments]")) > 1_000);
});

test("a running shape: what its control socket says", async (context) => {
  const socket = join(PLACE, "shape.sock");
  const shape = `"$0" shape --between tap:vw0 tap:vw1 --ab "cake bandwidth 10mbit diffserv4" --ctl "$1" &
    until [ -S "$1" ]; do sleep 0.1; done; ip link set vw0 up; ip link set vw1 up; wait`;
  const running = live(shape, socket);
  if (!running) {
    console.log("SKIPPED: view-test: a running shape: no namespace with TAP devices can be made here");
    return context.skip("no namespace");
  }
  try {
    for (let wait = 0; wait < 100 && !existsSync(socket); wait++) await page.waitForTimeout(100);
    const url = await serve(socket);
    await page.goto(url);
    await page.waitForFunction(() => Number(document.querySelector('[data-live="vw0 taken"]')?.textContent) > 0, null, { timeout: 30_000 });
    const taken = () => json_of(ackwright("ctl", "--ctl", socket, "show", "-j")).directions[0].taken_packets;
    const low = taken();
    await page.waitForFunction((low) => Number(document.querySelector('[data-live="vw0 taken"]')?.textContent) >= low, low);
    const shown = number(await text('[data-live="vw0 taken"]'));
    assert.ok(shown >= low && shown <= taken(), `${shown} packets, at least ${low}`);
    assert.equal(await page.locator(".tins").first().locator("thead th").count(), 4, "diffserv4 has four tins");
    assert.deepEqual(await faults(page), []);
    ackwright("ctl", "--ctl", socket, "stop");
    await page.getByText("no longer answers").waitFor({ timeout: 10_000 });
  } finally {
    running.kill("SIGKILL");
  }
});

test("who has no token, or another name for this host, gets nothing", async () => {
  const url = new URL(all.first.url);
  const status = (path, host) =>
    new Promise((known, failed) => {
      const asking = request({ host: "127.0.0.1", port: url.port, path, headers: { host } }, (response) => {
        response.resume();
        known(response.statusCode);
      });
      asking.on("error", failed);
      asking.end();
    });
  assert.equal(await status(url.pathname, url.host), 200);
  assert.equal(await status("/", url.host), 403);
  // A token that differs in its last digit, whatever that is.
  const other = url.pathname.at(-2) === "0" ? "1" : "0";
  assert.equal(await status(`${url.pathname.slice(0, -2)}${other}/api/index`, url.host), 403);
  assert.equal(await status(`${url.pathname}api/index`, "evil.example"), 403);
  assert.equal(await status(`${url.pathname}api/series?run=fifo-seed-1&name=..%2f..%2fsummary`, url.host), 404);
});

test("nothing was asked of anybody else, and nothing was complained about", () => {
  assert.deepEqual(window_.trouble, []);
  const others = window_.asked.filter((it) => !/^(http:\/\/127\.0\.0\.1:|file:|data:|about:)/.test(it));
  assert.deepEqual(others, []);
});
