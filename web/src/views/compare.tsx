// One run against another: every metric of both, and lines of both in one picture.

import { useEffect, useState } from "preact/hooks";
import { ask, type Index, type Run, type RunName } from "../api";
import { Chart, type Line } from "../chart";
import { figures, UNITS, type Unit } from "../format";
import { go, place, useStore, whole } from "../store";

export function runTitle(run: RunName): string {
  const labels = Object.values(run.labels).join(", ");
  return labels === "" ? `seed ${run.seed}` : `${labels}, seed ${run.seed}`;
}

const KINDS: [string, string, Unit][] = [
  ["flow-", "throughput_bits_per_sec", UNITS.rate],
  ["flow-", "cwnd_segments", UNITS.segments],
  ["flow-", "srtt_us", UNITS.micros],
  ["latency-", "round_trip_us", UNITS.micros],
  ["port-", "queue_packets", UNITS.packets],
  ["port-", "queue_delay_us", UNITS.micros],
  ["port-", "marks", UNITS.packets],
  ["port-", "drops", UNITS.packets],
];

const WORDS: Record<string, string> = {
  throughput_bits_per_sec: "throughput",
  cwnd_segments: "congestion window",
  srtt_us: "round-trip time",
  round_trip_us: "latency",
  queue_packets: "queue length",
  queue_delay_us: "queue delay",
  marks: "marks",
  drops: "drops",
};

export function Compare({ index, run }: { index: Index; run: Run }) {
  const address = useStore(place);
  const [end] = [useStore(whole)[1]];
  const runs = index.runs ?? [];
  const others = runs.filter((it) => it.name !== run.name);
  const other = others.find((it) => it.name === address.with) ?? nextPoint(runs, run.name) ?? others[0];
  const [against, setAgainst] = useState<Run | null>(null);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    setAgainst(null);
    if (!other) return;
    let wanted = true;
    ask<Run>("run", { run: other.name }).then((it) => wanted && setAgainst(it), () => undefined);
    return () => {
      wanted = false;
    };
  }, [other?.name]);
  if (!other) return <p class="nothing card" data-view="compare">There is only one run here; a sweep or several repetitions give more to compare.</p>;
  const own = runs.find((it) => it.name === run.name)!;
  const choices = KINDS.flatMap(([prefix, column, unit]) =>
    run.series
      .filter((name) => name.startsWith(prefix) && against?.series.includes(name))
      .map((series) => ({ series, column, unit, text: `${series.slice(prefix.length)}: ${WORDS[column]}` })),
  );
  const drawn = choices.find((it) => `${it.series} ${it.column}` === address.line) ?? choices[0];
  const lines: Line[] = drawn
    ? [
        { run: run.name, series: drawn.series, column: drawn.column, label: `A: ${runTitle(own)}`, colour: 0 },
        { run: other.name, series: drawn.series, column: drawn.column, label: `B: ${runTitle(other)}`, colour: 1, dashed: true },
      ]
    : [];
  const theirs = new Map(against?.metrics.map((it) => [`${it[0]} ${it[1]}`, it]));
  const rows = run.metrics.filter((it) => `${it[0]} ${it[1]}`.includes(filter));
  return (
    <>
      <section class="card" data-view="compare">
        <header>
          <h2>A: {runTitle(own)}</h2>
          <label>
            against B{" "}
            <select value={other.name} onChange={(event) => go({ with: event.currentTarget.value })}>
              {others.map((it) => (
                <option key={it.name} value={it.name}>
                  {runTitle(it)}
                </option>
              ))}
            </select>
          </label>
        </header>
        {against && against.end !== end && <p class="note">B ended at {figures(against.end)} s.</p>}
        {choices.length > 0 && (
          <label>
            Line{" "}
            <select value={drawn ? `${drawn.series} ${drawn.column}` : ""} onChange={(event) => go({ line: event.currentTarget.value })}>
              {choices.map((it) => (
                <option key={it.text} value={`${it.series} ${it.column}`}>
                  {it.text}
                </option>
              ))}
            </select>
          </label>
        )}
      </section>
      {drawn && against && (
        <div class="charts one">
          <Chart key={drawn.text} title={drawn.text} unit={drawn.unit} lines={lines} height={260} />
        </div>
      )}
      {against && (
        <section class="card">
          <header>
            <h2>Metrics</h2>
            <label>
              Filter <input type="search" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
            </label>
          </header>
          <div class="scroll tall" tabIndex={0} role="group" aria-label="Metrics of both runs">
            <table class="data">
              <thead>
                <tr>
                  <th scope="col">Metric</th>
                  <th scope="col" class="number">A</th>
                  <th scope="col" class="number">B</th>
                  <th scope="col" class="number">B − A</th>
                </tr>
              </thead>
              <tbody>
                {rows.slice(0, 500).map(([scope, metric, unit, value]) => {
                  const them = theirs.get(`${scope} ${metric}`)?.[3] ?? null;
                  const change = value !== null && them !== null ? them - value : null;
                  const share = change !== null && value ? ` (${change > 0 ? "+" : ""}${figures((change / Math.abs(value)) * 100)} %)` : "";
                  return (
                    <tr key={`${scope} ${metric}`}>
                      <th scope="row">
                        {scope} {metric} {unit && <small>[{unit}]</small>}
                      </th>
                      <td class="number" data-a={`${scope} ${metric}`}>{value === null ? "–" : figures(value)}</td>
                      <td class="number" data-b={`${scope} ${metric}`}>{them === null ? "–" : figures(them)}</td>
                      <td class="number">{change === null ? "–" : `${change > 0 ? "+" : ""}${figures(change)}${share}`}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
          {rows.length > 500 && <p class="note">500 of {rows.length} are shown; the filter finds the others.</p>}
        </section>
      )}
    </>
  );
}

/** The run of the same seed at another point, if there is one. */
function nextPoint(runs: RunName[], name: string): RunName | undefined {
  const own = runs.find((it) => it.name === name);
  return runs.find((it) => it.name !== name && it.seed === own?.seed);
}
