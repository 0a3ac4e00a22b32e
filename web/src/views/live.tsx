// A running `shape`: what it takes in and sends, its queues, from event to event.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Json } from "../api";
import { lineColour, token } from "../colour";
import { figures, metricPrefix } from "../format";
import { theme, useStore } from "../store";
import { Tc } from "./queues";

interface State {
  account: { seconds: number; directions: Json[]; late: Json };
  tc: Json[];
}

/** Events that are shown: two minutes. */
const KEPT = 240;

export function Live() {
  const [states, setStates] = useState<State[]>([]);
  const [gone, setGone] = useState("");
  useEffect(() => {
    const events = new EventSource("live");
    events.onmessage = (event) => {
      setGone("");
      setStates((known) => [...known, JSON.parse(event.data) as State].slice(-KEPT));
    };
    events.addEventListener("gone", (event) => setGone(JSON.parse((event as MessageEvent).data)));
    return () => events.close();
  }, []);
  const now = states.at(-1);
  if (!now) return <p class="nothing card" data-view="live">{gone ? `It cannot be reached: ${gone}` : "Waiting for the first event …"}</p>;
  const rates = (direction: number, what: string): (number | null)[] =>
    states.map((state, place) => {
      const before = states[place - 1];
      if (!before) return null;
      const span = state.account.seconds - before.account.seconds;
      const count = state.account.directions[direction][what] - before.account.directions[direction][what];
      return span > 0 ? (count * 8) / span / 1e6 : null;
    });
  const time = states.map((state) => state.account.seconds);
  const backlog = (device: string) => states.map((state) => sum(state.tc, device, "backlog") / 1e3);
  return (
    <>
      {gone && <p class="bad card" role="status">It no longer answers: {gone}. This is the last known state.</p>}
      <section class="card" data-view="live">
        <h2>Running for {figures(now.account.seconds)} s</h2>
        <div class="scroll" tabIndex={0} role="group" aria-label="Directions">
          <table class="data">
            <thead>
              <tr>
                <th scope="col">Direction</th>
                <th scope="col" class="number">Current rate</th>
                <th scope="col" class="number">Received</th>
                <th scope="col" class="number">Sent</th>
                <th scope="col" class="number">Dropped</th>
                <th scope="col" class="number">Queued</th>
              </tr>
            </thead>
            <tbody>
              {now.account.directions.map((it: Json, place: number) => {
                const dropped = Object.entries(it.dropped as Record<string, number>);
                const rate = rates(place, "sent_bytes").at(-1);
                return (
                  <tr key={it.from}>
                    <th scope="row">
                      {it.from} → {it.to}
                    </th>
                    <td class="number">{rate == null ? "–" : `${figures(rate)} Mbit/s`}</td>
                    <td class="number" data-live={`${it.from} taken`}>{figures(it.taken_packets)}</td>
                    <td class="number" data-live={`${it.from} sent`}>{figures(it.sent_packets)}</td>
                    <td class="number" title={dropped.map(([why, count]) => `${why}: ${count}`).join(", ")}>
                      {figures(dropped.reduce((all, [, count]) => all + count, 0))}
                    </td>
                    <td class="number">{metricPrefix(sum(now.tc, it.to, "backlog"), "B")}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        <p class="note">
          Late wake-ups: {figures(now.account.late.over_1ms)} of {figures(now.account.late.wakes)} by more than 1 ms, worst {figures(now.account.late.max_us)} µs
        </p>
      </section>
      <div class="charts">
        <Rolling title="Sent" unit="Mbit/s" time={time} lines={now.account.directions.map((it: Json, place: number) => ({ label: `${it.from} → ${it.to}`, values: rates(place, "sent_bytes") }))} />
        <Rolling title="Backlog" unit="kB" time={time} lines={now.account.directions.map((it: Json) => ({ label: it.to, values: backlog(it.to) }))} />
      </div>
      {[...new Set(now.tc.map((it) => it.dev as string))].map((device) => (
        <div key={device}>
          <h2 class="device">{device}</h2>
          <Tc text="" json={now.tc.filter((it) => it.dev === device)} />
        </div>
      ))}
    </>
  );
}

function sum(tc: Json[], device: string, field: string): number {
  return tc.filter((it) => it.dev === device && it.root).reduce((all, it) => all + (it[field] ?? 0), 0);
}

interface RollingLine {
  label: string;
  values: (number | null)[];
}

function Rolling({ title, unit, time, lines }: { title: string; unit: string; time: number[]; lines: RollingLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const look = useStore(theme);
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const rule = token("--rule");
    const axis = { stroke: token("--soft"), grid: { stroke: rule, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: at.clientWidth,
        height: 160,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false }, y: { range: (_, __, high) => [0, (high ?? 0) <= 0 ? 1 : (high ?? 1) * 1.1] } },
        axes: [{ ...axis, size: 28 }, { ...axis, size: 52 }],
        series: [{}, ...lines.map((line, index) => ({ label: line.label, stroke: lineColour(index, look === "dark"), width: 1.5, points: { show: false } }))],
      },
      [time, ...lines.map((line) => line.values)],
      at,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: 160 }));
    watch.observe(at);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [look, lines.length]);
  useEffect(() => plot.current?.setData([time, ...lines.map((line) => line.values)]), [time.at(-1)]);
  return (
    <section class="chart" data-chart={title}>
      <header>
        <h3>
          {title} <small>[{unit}]</small>
        </h3>
      </header>
      <div class="plot" ref={box} role="img" aria-label={`${title} over the last two minutes`} />
      <ul class="legend">
        {lines.map((line, index) => (
          <li key={line.label}>
            <i class="swatch" style={{ color: lineColour(index, look === "dark") }} />
            <span class="name">{line.label}</span>
            <b>{line.values.at(-1) == null ? "–" : `${figures(line.values.at(-1)!)} ${unit}`}</b>
          </li>
        ))}
      </ul>
    </section>
  );
}
