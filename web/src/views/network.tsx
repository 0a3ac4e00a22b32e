// The network and, below it, everything over time.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, type Run } from "../api";
import { Chart, type Line } from "../chart";
import { UNITS, type Unit } from "../format";
import { Topology, type Utilisation } from "../topology";

interface Kind {
  title: string;
  prefix: string;
  column: string;
  unit: Unit;
  steps?: boolean;
}

const KINDS: Kind[] = [
  { title: "Throughput", prefix: "flow-", column: "throughput_bits_per_sec", unit: UNITS.rate },
  { title: "Congestion window", prefix: "flow-", column: "cwnd_segments", unit: UNITS.segments, steps: true },
  { title: "Round-trip time", prefix: "flow-", column: "srtt_us", unit: UNITS.micros },
  { title: "Latency", prefix: "latency-", column: "round_trip_us", unit: UNITS.micros },
  { title: "Queue length", prefix: "port-", column: "queue_packets", unit: UNITS.packets, steps: true },
  { title: "Queue delay", prefix: "port-", column: "queue_delay_us", unit: UNITS.micros },
  { title: "Marks", prefix: "port-", column: "marks", unit: UNITS.packets },
  { title: "Drops", prefix: "port-", column: "drops", unit: UNITS.packets },
];

/** Lines of a chart that can still be told apart. */
const LINES_MAX = 8;
/** Columns of streams; probes and messages have none of these. */
const STREAM = new Set(["cwnd_segments", "srtt_us"]);

/** The flows with the highest goodput first: of many, those are drawn. */
export function ranked(run: Run): string[] {
  const goodput = new Map(run.metrics.filter((it) => it[1] === "goodput").map((it) => [it[0], it[3] ?? 0]));
  const names = run.series.filter((it) => it.startsWith("flow-")).map((it) => it.slice("flow-".length));
  return names.sort((a, b) => (goodput.get(b) ?? 0) - (goodput.get(a) ?? 0) || a.localeCompare(b));
}

export function Network({ run }: { run: Run }) {
  const [use, setUse] = useState<Utilisation | null>(null);
  const flows = useMemo(() => ranked(run), [run]);
  const [chosen, choose] = useState<string[]>([]);
  useEffect(() => {
    setUse(null);
    choose(flows.slice(0, LINES_MAX));
    let wanted = true;
    ask<Utilisation>("utilisation", { run: run.name }).then((it) => wanted && setUse(it), () => undefined);
    return () => {
      wanted = false;
    };
  }, [run]);
  const tcp = new Set(run.world?.flows.filter((flow) => flow.tcp).map((flow) => flow.name));
  const lines = (kind: Kind): [Line[], number] => {
    const all = run.series.filter((name) => name.startsWith(kind.prefix)).map((name) => name.slice(kind.prefix.length));
    const isFlow = kind.prefix === "flow-";
    const fits = isFlow && STREAM.has(kind.column) && run.world ? all.filter((name) => tcp.has(name)) : all;
    const drawn = isFlow ? chosen.filter((name) => fits.includes(name)) : fits.slice(0, LINES_MAX);
    const line = (name: string): Line => ({
      run: run.name,
      series: kind.prefix + name,
      column: kind.column,
      label: name,
      colour: isFlow ? Math.max(flows.indexOf(name), 0) : undefined,
      steps: kind.steps,
    });
    return [drawn.map(line), fits.length];
  };
  return (
    <>
      {run.world ? (
        <Topology run={run} world={run.world} use={use} />
      ) : (
        <p class="nothing card">These results contain no network, because an earlier version wrote them. Run the experiment again to see it.</p>
      )}
      {flows.length > LINES_MAX && <Choice flows={flows} chosen={chosen} choose={choose} />}
      <div class="charts" data-view="lines">
        {KINDS.map((kind) => {
          const [drawn, of] = lines(kind);
          if (of === 0) return null;
          const note = drawn.length < of ? `${drawn.length} of ${of} shown` : undefined;
          return <Chart key={kind.title} title={kind.title} unit={kind.unit} lines={drawn} note={note} />;
        })}
      </div>
    </>
  );
}

function Choice({ flows, chosen, choose }: { flows: string[]; chosen: string[]; choose: (flows: string[]) => void }) {
  const [filter, setFilter] = useState("");
  const fits = flows.filter((name) => name.includes(filter));
  const toggle = (name: string) =>
    choose(chosen.includes(name) ? chosen.filter((it) => it !== name) : [...chosen, name].slice(-LINES_MAX));
  return (
    <details class="choice card">
      <summary>
        {chosen.length} of {flows.length} flows are shown, at first those with the highest goodput. Choose up to {LINES_MAX}
      </summary>
      <label>
        Filter <input type="search" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </label>
      <div class="boxes">
        {fits.slice(0, 200).map((name) => (
          <label key={name}>
            <input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} /> {name}
          </label>
        ))}
      </div>
      {fits.length > 200 && <p class="note">200 of {fits.length} are shown; the filter finds the others.</p>}
    </details>
  );
}
