// The ring of hashes of a route with several next hops: who has which part before and after a change, and which
// flows moved.

import { useEffect, useState } from "preact/hooks";
import { ask, type RingSnapshot, type Rings, type Run } from "../api";
import { lineColour } from "../colour";
import { figures, timeText } from "../format";
import { moveTo, theme, useStore } from "../store";

/** Hashes have 31 bits. */
const WHOLE = 2 ** 31;

/** One step from a state to the next; the last one stands alone. */
interface Step {
  text: string;
  time: number;
  before: RingSnapshot | null;
  now: RingSnapshot;
}

/** Each change, what moved between changes (idle buckets of resilient groups do), and how it stands at the end. */
function stepsOf(ring: Rings["rings"][number]): Step[] {
  const steps: Step[] = [];
  let last: RingSnapshot | null = null;
  for (const { time, before, after } of ring.changes) {
    if (last && before && moved(last, before).length > 0) steps.push({ text: "in between, until", time, before: last, now: before });
    if (before && after) steps.push({ text: "change at", time, before, now: after });
    last = after ?? before;
  }
  if (ring.end) {
    const still = last !== null && moved(last, ring.end).length === 0;
    steps.push({ text: "at the end,", time: ring.end_time, before: still ? null : last, now: ring.end });
  }
  return steps;
}

function moved(before: RingSnapshot, now: RingSnapshot): RingSnapshot["flows"] {
  const was = new Map(before.flows.map((it) => [it.flow, it.hop]));
  return now.flows.filter((it) => was.has(it.flow) && was.get(it.flow) !== it.hop);
}

export function Multipath({ run }: { run: Run }) {
  const [rings, setRings] = useState<Rings | null>(null);
  const [ring, setRing] = useState(0);
  const [step, setStep] = useState(0);
  useEffect(() => {
    setRings(null);
    setRing(0);
    setStep(0);
    if (!run.rings) return;
    let wanted = true;
    ask<Rings>("rings", { run: run.name }).then(
      (it) => {
        if (!wanted) return;
        setRings(it);
        // What changes, and with the most flows, is shown first.
        const weight = (one: Rings["rings"][number]) => (one.changes.length > 0 ? 1e6 : 0) + Math.max(one.end?.flows.length ?? 0, ...one.changes.map((change) => change.after?.flows.length ?? 0));
        const first = it.rings.reduce((best, one, index) => (weight(one) > weight(it.rings[best]!) ? index : best), 0);
        setRing(first);
      },
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [run]);
  if (!run.rings) {
    return (
      <p class="nothing card" data-view="multipath">
        {run.world?.viewed ? "No flow in this run had a choice between several next hops." : "Next hops were not recorded; `ackwright run --view` records them where a route has several."}
      </p>
    );
  }
  if (!rings) return <p class="nothing card">Loading …</p>;
  const of = rings.rings[ring]!;
  const steps = stepsOf(of);
  const now = steps[Math.min(step, steps.length - 1)];
  const show = (at: number) => {
    setStep(at);
    const to = steps[at];
    if (to) moveTo(to.time);
  };
  return (
    <section class="card" data-view="multipath">
      <header>
        <h2>Next hops of</h2>
        <label>
          <span class="hidden">Route</span>
          <select
            value={ring}
            onChange={(event) => {
              setRing(Number(event.currentTarget.value));
              setStep(0);
            }}
          >
            {rings.rings.map((it, index) => (
              <option key={index} value={index}>
                {it.node}: {it.route} ({it.kind})
              </option>
            ))}
          </select>
        </label>
        {now && (
          <span class="steps">
            <button type="button" aria-label="Previous step" disabled={step === 0} onClick={() => show(step - 1)}>
              ◀
            </button>
            <span>
              {now.text} {timeText(now.time, 1)} ({step + 1} of {steps.length})
            </span>
            <button type="button" aria-label="Next step" disabled={step >= steps.length - 1} onClick={() => show(step + 1)}>
              ▶
            </button>
          </span>
        )}
      </header>
      {now ? <Ring before={now.before} now={now.now} ports={of.ports} /> : <p class="nothing">No flow used this route when it changed.</p>}
    </section>
  );
}

interface Arc {
  from: number;
  to: number;
  hop: number;
}

/** The parts of the ring, from 0 to 1. */
function arcs(of: RingSnapshot): Arc[] {
  if (of.buckets) {
    const count = of.buckets.length;
    return of.buckets.map((hop, at) => ({ from: at / count, to: (at + 1) / count, hop }));
  }
  let from = 0;
  return of.hops.flatMap((hop, index) => {
    if (hop.bound < 0) return [];
    const to = (hop.bound + 1) / WHOLE;
    const arc = { from, to, hop: index };
    from = to;
    return [arc];
  });
}

/** Where a flow lies: of buckets, by the remainder. */
function angle(of: RingSnapshot, hash: number): number {
  if (!of.buckets) return hash / WHOLE;
  return ((hash % of.buckets.length) + 0.5) / of.buckets.length;
}

function Ring({ before, now, ports }: { before: RingSnapshot | null; now: RingSnapshot; ports: Record<string, string> }) {
  const dark = useStore(theme) === "dark";
  const colour = (hop: number | null) => (hop === null || hop < 0 ? "var(--bad)" : lineColour(hop, dark));
  const was = new Map(before?.flows.map((it) => [it.flow, it.hop]));
  const went = before ? moved(before, now) : [];
  const isMoved = new Set(went.map((it) => it.flow));
  const port = (hop: RingSnapshot["hops"][number]) => `${ports[hop.port] ?? hop.port}${hop.gateway ? ` ${hop.gateway}` : ""}`;
  const nameIn = (of: RingSnapshot | null, hop: number | null | undefined) => (hop == null || hop < 0 ? "no route" : of?.hops[hop] ? port(of.hops[hop]) : `hop ${hop}`);
  const name = (hop: number | null | undefined) => nameIn(now, hop);
  // Whose next hop is out of service, or not among those any more.
  const gone = went.filter((it) => {
    const old = was.get(it.flow);
    const was_there = old == null ? undefined : before?.hops[old];
    const still = was_there && now.hops.find((hop) => hop.port === was_there.port && hop.gateway === was_there.gateway);
    return !still?.usable;
  });
  return (
    <div class="ring">
      <svg viewBox="-210 -210 420 420" role="img" aria-label={`Hash ring: ${now.hops.length} next hops, ${now.flows.length} flows, ${went.length} of them moved`}>
        {before && arcs(before).map((arc, index) => <path key={`b${index}`} d={sector(arc, 112, 132)} fill={colour(arc.hop)} opacity="0.45" />)}
        {arcs(now).map((arc, index) => (
          <path key={index} d={sector(arc, 140, 172)} fill={colour(arc.hop)} stroke="var(--card)" stroke-width={now.buckets ? 0.4 : 1.5}>
            <title>{`${name(arc.hop)}: ${figures((arc.to - arc.from) * 100)} %`}</title>
          </path>
        ))}
        {now.flows.map((flow) => {
          if (flow.hash === null) return null;
          const at = angle(now, flow.hash) * 2 * Math.PI - Math.PI / 2;
          const far = isMoved.has(flow.flow) ? 190 : 184;
          return (
            <circle key={flow.flow} cx={Math.cos(at) * far} cy={Math.sin(at) * far} r={isMoved.has(flow.flow) ? 6 : 4} fill={colour(flow.hop)} stroke={isMoved.has(flow.flow) ? "var(--ink)" : "none"} stroke-width="1.5">
              <title>{`${flow.flow}: ${name(flow.hop)}`}</title>
            </circle>
          );
        })}
        <text y="-8" text-anchor="middle" class="large" data-moved={went.length}>
          {before ? `${went.length} of ${now.flows.length}` : now.flows.length}
        </text>
        <text y="14" text-anchor="middle">{before ? "flows moved" : "flows"}</text>
        {before && <text y="34" text-anchor="middle" class="soft">inner ring: before</text>}
      </svg>
      <div class="tables">
        <table class="data">
          <thead>
            <tr>
              <th scope="col">Next hop</th>
              <th scope="col" class="number">Weight</th>
              <th scope="col" class="number">Share of ring</th>
              <th scope="col" class="number">Flows</th>
            </tr>
          </thead>
          <tbody>
            {now.hops.map((hop, index) => {
              const share = arcs(now).filter((arc) => arc.hop === index).reduce((sum, arc) => sum + arc.to - arc.from, 0);
              return (
                <tr key={index} class={hop.usable ? "" : "bad"}>
                  <th scope="row">
                    <i class="swatch" style={{ color: colour(index) }} />
                    {port(hop)} {hop.usable ? "" : "(out of service)"}
                  </th>
                  <td class="number">{hop.weight}</td>
                  <td class="number">{figures(share * 100)} %</td>
                  <td class="number" data-hop-flows={port(hop)}>{now.flows.filter((flow) => flow.hop === index).length}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {before && (
          <>
            <h3>Flows that moved</h3>
            {went.length === 0 ? (
              <p class="nothing">None.</p>
            ) : (
              <>
                <p class="note">
                  {gone.length} had to move, {went.length - gone.length} moved although their next hop is in service.
                </p>
                <div class="scroll tall" tabIndex={0} role="group" aria-label="Flows that moved">
                  <table class="data">
                    <thead>
                      <tr>
                        <th scope="col">Flow</th>
                        <th scope="col">From</th>
                        <th scope="col">To</th>
                      </tr>
                    </thead>
                    <tbody>
                      {went.slice(0, 500).map((it) => (
                        <tr key={it.flow}>
                          <th scope="row">{it.flow}</th>
                          <td>{nameIn(before, was.get(it.flow))}</td>
                          <td>{name(it.hop)}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </>
            )}
          </>
        )}
      </div>
    </div>
  );
}

/** A part of a ring between two radii. */
function sector({ from, to }: Arc, inner: number, outer: number): string {
  const end = to - from >= 0.99999 ? from + 0.99999 : to;
  const point = (at: number, radius: number) => {
    const turn = at * 2 * Math.PI - Math.PI / 2;
    return `${(Math.cos(turn) * radius).toFixed(3)} ${(Math.sin(turn) * radius).toFixed(3)}`;
  };
  const large = end - from > 0.5 ? 1 : 0;
  return `M${point(from, outer)} A${outer} ${outer} 0 ${large} 1 ${point(end, outer)} L${point(end, inner)} A${inner} ${inner} 0 ${large} 0 ${point(from, inner)} Z`;
}
