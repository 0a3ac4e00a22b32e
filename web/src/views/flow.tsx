// One flow: its packets as a time/sequence graph, the one under the cursor decoded, its story as a list that jumps.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, type Connection, type Decoded, exported, type Graph, type Run, type Story } from "../api";
import { Chart, type Line } from "../chart";
import { figures, metricPrefix, timeText, UNITS } from "../format";
import { type Chosen, KINDS, Sequence } from "../sequence";
import { cursor, go, moveTo, place, shown, useStore, whole } from "../store";
import { ranked } from "./network";

interface Captured {
  port: string;
  connection: Connection;
  flow: string | null;
  way: "forth" | "back";
}

interface Capture {
  records: number;
  tcp: number;
  unreadable: number;
  cut_short: string | null;
  connections: Connection[];
}

/** Connections that are offered at most: those with the most bytes. */
const OFFERED_MAX = 300;

export function Flow({ run }: { run: Run | null }) {
  const address = useStore(place);
  const [all, setAll] = useState<Captured[] | null>(null);
  const [trouble, setTrouble] = useState("");
  const name = run?.name ?? "";
  useEffect(() => {
    let wanted = true;
    setAll(null);
    const ports = run ? run.captures : [""];
    Promise.all(
      ports.map((port) =>
        ask<Capture>("capture", { run: name, port }).then((capture) => ({ port, capture })),
      ),
    ).then(
      (found) => {
        if (!wanted) return;
        setTrouble(found.map((it) => it.capture.cut_short).filter(Boolean).join("; "));
        setAll(found.flatMap(({ port, capture }) => capture.connections.map((one) => named(one, port, run))));
      },
      (error: Error) => wanted && (setTrouble(error.message), setAll([])),
    );
    return () => {
      wanted = false;
    };
  }, [run]);
  const offered = useMemo(
    () => (all ? [...all].sort((a, b) => b.connection[b.way].bytes - a.connection[a.way].bytes).slice(0, OFFERED_MAX) : []),
    [all],
  );
  const stories = run?.explained ?? [];
  const flows = [...new Set([...offered.map((it) => it.flow ?? ""), ...stories])].filter((it) => it !== "");
  const key = (it: Captured) => `${it.port}/${it.connection.id}`;
  const captured =
    offered.find((it) => key(it) === address.connection) ?? offered.find((it) => it.flow === address.flow) ?? offered[0];
  const measured = run ? ranked(run) : [];
  const known = [...new Set([...flows, ...measured])];
  const flow = captured?.flow ?? (known.includes(address.flow ?? "") ? address.flow! : known[0]) ?? null;
  if (all === null) return <p class="nothing card">Loading packets …</p>;
  return (
    <>
      <section class="card" data-view="sequence">
        <header>
          <h2>Packets</h2>
          {offered.length > 0 && (
            <label>
              Connection{" "}
              <select
                value={captured ? key(captured) : ""}
                onChange={(event) => {
                  const found = offered.find((it) => key(it) === event.currentTarget.value);
                  go({ connection: event.currentTarget.value, flow: found?.flow ?? "" });
                }}
              >
                {offered.map((it) => (
                  <option key={key(it)} value={key(it)}>
                    {it.flow ? `${it.flow}: ` : ""}
                    {it.connection.from} → {it.connection.to}, {metricPrefix(it.connection[it.way].bytes, "B")}
                    {it.port ? ` (${it.port})` : ""}
                  </option>
                ))}
              </select>
            </label>
          )}
          {all.length > OFFERED_MAX && <span class="note">The {OFFERED_MAX} connections with the most bytes, out of {all.length}</span>}
        </header>
        {trouble && <p class="nothing">{trouble}</p>}
        {captured ? (
          <Packets key={key(captured)} run={name} captured={captured} />
        ) : (
          <p class="nothing">
            {run
              ? "No TCP packets were captured. `ackwright run --view` captures at the sender of each flow; `pcap` in [measure] names other ports."
              : "There are no TCP packets in this capture."}
          </p>
        )}
      </section>
      {run && !captured && known.length > 0 && (
        <label class="card">
          Flow{" "}
          <select value={flow ?? ""} onChange={(event) => go({ flow: event.currentTarget.value })}>
            {known.map((it) => (
              <option key={it}>{it}</option>
            ))}
          </select>
        </label>
      )}
      {run && <Told run={run} flow={flow} flows={stories} />}
      {run && flow && <Lines run={run} flow={flow} />}
    </>
  );
}

/** Which flow a connection is of: its server listens at a port of its own. */
function named(connection: Connection, port: string, run: Run | null): Captured {
  const flows = run?.world?.flows.filter((flow) => flow.tcp) ?? [];
  const found = flows.find((flow) => flow.port === connection.ports[1]) ?? flows.find((flow) => flow.port === connection.ports[0]);
  return { port, connection, flow: found?.name ?? null, way: connection.main };
}

function Packets({ run, captured }: { run: string; captured: Captured }) {
  const { port, connection } = captured;
  const [way, setWay] = useState(captured.way);
  const [graph, setGraph] = useState<Graph | null>(null);
  const [trouble, setTrouble] = useState("");
  const [chosen, choose] = useState<Chosen | null>(null);
  const [decoded, setDecoded] = useState<Decoded | null>(null);
  const [missing, setMissing] = useState("");
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const span = useStore(shown);
  const [begin, end] = useStore(whole);
  useEffect(() => {
    let wanted = true;
    const isWhole = span[0] <= begin && span[1] >= end;
    const named = { run, port, connection: connection.id, way };
    const room = (span[1] - span[0]) * 0.02;
    const chosenPart: Record<string, string | number> = isWhole ? { pixels: 2000 } : { from: (span[0] - room).toFixed(9), to: (span[1] + room).toFixed(9), pixels: 2000 };
    const timer = setTimeout(() => {
      ask<Graph>("graph", named, chosenPart).then(
        (it) => wanted && (setGraph(it), choose(null)),
        (error: Error) => wanted && setTrouble(error.message),
      );
    }, graph ? 80 : 0);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [run, port, connection.id, way, span, begin, end]);
  useEffect(() => {
    if (!chosen) return;
    let wanted = true;
    ask<Decoded>("packet", { run, port, packet: chosen.packet }).then(
      (it) => wanted && (setDecoded(it), setMissing("")),
      (error: Error) => wanted && setMissing(error.message),
    );
    return () => {
      wanted = false;
    };
  }, [chosen]);
  if (trouble) return <p class="nothing">{trouble}</p>;
  if (!graph) return <p class="nothing">Loading packets …</p>;
  const of = connection[way];
  const toggle = (key: string) => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    setHidden(next);
  };
  const stands = chosen ? graph[chosen.kind].count[chosen.place] ?? 1 : 1;
  return (
    <div class="packets">
      <div class="graph">
        <p class="facts">
          <span>
            <b data-segments>{figures(of.segments)}</b> segments
          </span>
          <span>
            <b data-again>{figures(of.retransmitted)}</b> retransmitted
          </span>
          <span>
            <b data-bytes>{metricPrefix(of.bytes, "B")}</b> from {way === "forth" ? connection.from : connection.to}
          </span>
          <button type="button" onClick={() => setWay(way === "forth" ? "back" : "forth")}>
            Other direction
          </button>
        </p>
        <Sequence graph={graph} chosen={chosen} choose={choose} hidden={hidden} />
        <ul class="legend toggles">
          {KINDS.map((kind) => (
            <li key={kind.key}>
              <button type="button" aria-pressed={!hidden.has(kind.key)} onClick={() => toggle(kind.key)}>
                <i style={{ color: `var(${kind.colour})` }}>{kind.mark}</i> {kind.name}
              </button>
            </li>
          ))}
        </ul>
        {graph.joined && <p class="note">More packets than pixels: a mark stands for all packets in its pixel. {exported ? "" : "Zoom in to see each one."}</p>}
      </div>
      <aside class="decoded" aria-live="polite" data-view="packet">
        {decoded && chosen ? (
          <>
            <h3>
              Packet {decoded.packet + 1} at <span data-packet-time>{timeText(decoded.time, 0.1)}</span>
            </h3>
            <p class="summary" data-summary>{decoded.summary}</p>
            <p class="note">
              {decoded.from} → {decoded.to}
              {decoded.place ? `, at ${decoded.place}` : ""}
              {stands > 1 ? `; the last of ${stands} that this mark stands for` : ""}
            </p>
            {decoded.comment && <p class="bad">{decoded.comment}</p>}
            {decoded.flaws.map((flaw) => (
              <p class="bad" key={flaw}>
                {flaw}
              </p>
            ))}
            {decoded.headers.map((header) => (
              <table class="fields" key={header.name}>
                <caption>{header.name}</caption>
                <tbody>
                  {header.fields.map(([field, value]) => (
                    <tr key={field}>
                      <th scope="row">{field}</th>
                      <td>{value}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ))}
            <details>
              <summary>Bytes</summary>
              <pre tabIndex={0}>{hexdump(decoded.bytes)}</pre>
            </details>
          </>
        ) : (
          <p class="nothing">{missing || "Point at a mark, or press n or p in the graph, to decode a packet here."}</p>
        )}
      </aside>
    </div>
  );
}

function hexdump(bytes: string): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 32) {
    const row = bytes.slice(at, at + 32);
    lines.push(`${(at / 2).toString(16).padStart(4, "0")}  ${row.match(/../g)!.join(" ")}`);
  }
  return lines.join("\n");
}

/** The story: why the flow was not faster, and what happened; choosing a line goes there. */
function Told({ run, flow, flows }: { run: Run; flow: string | null; flows: string[] }) {
  const [story, setStory] = useState<Story | null>(null);
  const [kinds, setKinds] = useState<Set<string>>(new Set());
  const time = useStore(cursor);
  const list = useRef<HTMLOListElement>(null);
  const stem = flows.find((it) => it === flow) ?? flows.find((it) => flow && it.startsWith(flow.replace(/[^A-Za-z0-9._-]/g, "_")));
  useEffect(() => {
    setStory(null);
    if (!stem) return;
    let wanted = true;
    ask<Story>("explain", { run: run.name, flow: stem }).then((it) => wanted && setStory(it), () => undefined);
    return () => {
      wanted = false;
    };
  }, [run, stem]);
  const names = useMemo(() => [...new Set(story?.events.map((it) => it.kind))], [story]);
  const events = useMemo(() => story?.events.filter((it) => !kinds.has(it.kind)) ?? [], [story, kinds]);
  let here = -1;
  for (let low = 0, high = events.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (events[middle]!.time <= time + 1e-9) {
      here = middle;
      low = middle + 1;
    } else high = middle;
  }
  const drawn = 200;
  const from = Math.max(0, Math.min(here - drawn / 2, events.length - drawn));
  const part = events.slice(from, from + drawn);
  const jump = (place: number) => {
    const event = events[place];
    if (!event) return;
    moveTo(event.time);
  };
  useEffect(() => {
    const box = list.current;
    const row = box?.querySelector<HTMLElement>("[aria-current]");
    if (!box || !row) return;
    const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }, [here]);
  if (!stem) {
    return (
      <section class="card" data-view="explain">
        <h2>Why it was not faster</h2>
        <p class="nothing">{flow ?? "This flow"} has no explanation: use `ackwright run --view`, or `--explain FLOW --out DIR`.</p>
      </section>
    );
  }
  return (
    <section class="card" data-view="explain">
      <header>
        <h2>Why {flow} was not faster</h2>
      </header>
      {story?.why.map((paragraph) => <p key={paragraph} data-why>{paragraph}</p>)}
      {story && story.events.length > 0 && (
        <>
          <ul class="legend toggles">
            {names.map((name) => (
              <li key={name}>
                <button
                  type="button"
                  aria-pressed={!kinds.has(name)}
                  onClick={() => {
                    const next = new Set(kinds);
                    if (!next.delete(name)) next.add(name);
                    setKinds(next);
                  }}
                >
                  {name} ({story.events.filter((it) => it.kind === name).length})
                </button>
              </li>
            ))}
          </ul>
          <div class="row head" aria-hidden="true">
            <span>time</span>
            <span class="number">cwnd</span>
            <span class="number wide">ssthresh</span>
            <span class="number wide">in flight</span>
            <span class="number wide">srtt/ms</span>
            <span>event</span>
          </div>
          <ol
            class="events"
            ref={list}
            tabIndex={0}
            aria-label="Events; the up and down arrows select the previous and the next"
            onKeyDown={(event) => {
              if (event.key === "ArrowDown" || event.key === "j") jump(here + 1);
              else if (event.key === "ArrowUp" || event.key === "k") jump(Math.max(here - 1, 0));
              else return;
              event.preventDefault();
              event.stopPropagation();
            }}
          >
            {part.map((event, index) => (
              <li key={from + index}>
                <button
                  type="button"
                  class={`row ${event.kind.replace(" ", "-")}`}
                  aria-current={from + index === here ? "true" : undefined}
                  onClick={() => jump(from + index)}
                >
                  <span>{event.time.toFixed(6)}</span>
                  <span class="number">{event.cwnd ?? "–"}</span>
                  <span class="number wide">{event.ssthresh ?? "–"}</span>
                  <span class="number wide">{event.flight ?? "–"}</span>
                  <span class="number wide">{event.srtt_ms ?? "–"}</span>
                  <span>
                    <b>{event.kind}</b> {event.text}
                  </span>
                </button>
              </li>
            ))}
          </ol>
          <p class="note">
            {events.length > drawn ? `Events ${from + 1} to ${Math.min(from + drawn, events.length)} of ${events.length}, around the cursor` : `${events.length} events`}
          </p>
        </>
      )}
    </section>
  );
}

function Lines({ run, flow }: { run: Run; flow: string }) {
  const series = `flow-${flow}`;
  if (!run.series.includes(series)) return null;
  const line = (column: string, label: string, colour = 0): Line => ({ run: run.name, series, column, label, colour, steps: true });
  return (
    <div class="charts" data-view="flow-lines">
      <Chart
        title="Window"
        unit={UNITS.segments}
        lines={[line("cwnd_segments", "congestion window"), line("ssthresh_segments", "slow-start threshold", 1), line("unacked_segments", "in flight", 2)]}
      />
      <Chart title="Throughput" unit={UNITS.rate} lines={[{ ...line("throughput_bits_per_sec", "throughput"), steps: false }]} />
      <Chart title="Round-trip time" unit={UNITS.micros} lines={[line("srtt_us", "smoothed")]} />
      <Chart title="Retransmissions" unit={UNITS.segments} lines={[line("retransmits_segments", "segments so far")]} />
    </div>
  );
}
