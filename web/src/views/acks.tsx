// CAKE's ACK filter: which ACKs it dropped, and by which rule.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Acks as Answer, ask, type Json, type Run } from "../api";
import { figures } from "../format";
import { cursor, go, moveTo, place, useStore } from "../store";

/** Rules by which an ACK goes, in the order of `cake::AckRule`, and what each means. */
export const RULES: [string, string][] = [
  ["first-of-two", "first of two ACKs that the newest makes redundant"],
  ["last-before", "redundant, right before the newest"],
  ["first", "first ACK that the newest makes redundant"],
  ["every-other", "every other ACK that acknowledges more, while others wait"],
];

export function Acks({ run }: { run: Run }) {
  const address = useStore(place);
  const counted = run.tc.flatMap((it) => {
    const qdiscs: Json[] = Array.isArray(it.json) ? it.json : [];
    const cakes = qdiscs.filter((qdisc) => Array.isArray(qdisc.tins));
    if (cakes.length === 0) return [];
    const drops = cakes.flatMap((cake) => cake.tins).reduce((sum: number, tin: Json) => sum + (tin.ack_drops ?? 0), 0);
    const packets = cakes.flatMap((cake) => cake.tins).reduce((sum: number, tin: Json) => sum + (tin.sent_packets ?? 0), 0);
    return [{ port: it.port, drops, packets, filter: cakes.map((cake) => cake.options?.["ack-filter"] ?? "").join(" ") }];
  });
  const port = run.acks.includes(address.acks ?? "") ? address.acks! : run.acks[0];
  return (
    <>
      <section class="card" data-view="acks">
        <h2>ACKs filtered by CAKE</h2>
        {counted.length === 0 ? (
          <p class="nothing">No watched port has a CAKE qdisc.</p>
        ) : (
          <table class="data">
            <thead>
              <tr>
                <th scope="col">Port</th>
                <th scope="col">Filter</th>
                <th scope="col" class="number">ACKs filtered</th>
                <th scope="col" class="number">Packets enqueued</th>
              </tr>
            </thead>
            <tbody>
              {counted.map((it) => (
                <tr key={it.port}>
                  <th scope="row">{it.port}</th>
                  <td>{it.filter || "–"}</td>
                  <td class="number" data-ack-drops={it.port}>{figures(it.drops)}</td>
                  <td class="number">{figures(it.packets)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {counted.length > 0 && run.acks.length === 0 && (
          <p class="nothing">
            {counted.some((it) => it.drops > 0)
              ? "Which ACKs these were, and which rule dropped each, was not recorded; `ackwright run --view` records it."
              : "No ACK was filtered in this run."}
          </p>
        )}
      </section>
      {port && (
        <>
          {run.acks.length > 1 && (
            <label class="card">
              Port{" "}
              <select value={port} onChange={(event) => go({ acks: event.currentTarget.value })}>
                {run.acks.map((it) => (
                  <option key={it}>{it}</option>
                ))}
              </select>
            </label>
          )}
          <Filtered run={run} port={port} />
        </>
      )}
    </>
  );
}

const ROWS = 200;

function Filtered({ run, port }: { run: Run; port: string }) {
  const [acks, setAcks] = useState<Answer | null>(null);
  const [rule, setRule] = useState(-1);
  const time = useStore(cursor);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const row = list.current?.querySelector<HTMLElement>("tr.chosen");
    if (list.current && row) list.current.scrollTop = row.offsetTop - list.current.clientHeight / 2;
  });
  useEffect(() => {
    let wanted = true;
    setAcks(null);
    ask<Answer>("acks", { run: run.name, port }).then((it) => wanted && setAcks(it), () => undefined);
    return () => {
      wanted = false;
    };
  }, [run, port]);
  if (!acks) return <p class="nothing card">Loading …</p>;
  const most = Math.max(...acks.rules.map(([, count]) => count), 1);
  const fits = acks.time.map((_, place) => place).filter((place) => rule < 0 || acks.rule[place] === rule);
  let here = 0;
  while (here < fits.length - 1 && acks.time[fits[here + 1]!]! <= time) here++;
  const from = Math.max(0, Math.min(here - ROWS / 2, fits.length - ROWS));
  const flowName = (at: number) => run.world?.flows[at]?.name ?? "–";
  return (
    <section class="card" data-view="ack-rules">
      <h2>ACKs by rule, at {port}</h2>
      <table class="data bars">
        <thead>
          <tr>
            <th scope="col">Rule</th>
            <th scope="col" class="number">ACKs</th>
            <th scope="col" class="wide">Share</th>
          </tr>
        </thead>
        <tbody>
          {acks.rules.map(([number, count]) => (
            <tr key={number}>
              <th scope="row">
                <button type="button" class="link" aria-pressed={rule === number} onClick={() => setRule(rule === number ? -1 : number)}>
                  {RULES[number]?.[0] ?? `rule ${number}`}
                </button>{" "}
                <span class="note">{RULES[number]?.[1]}</span>
              </th>
              <td class="number" data-rule={RULES[number]?.[0]}>{figures(count)}</td>
              <td class="wide">
                <meter min={0} max={most} value={count} aria-label={`${count} ACKs`} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {acks.time.length > 0 && (
        <>
          <div class="scroll tall" ref={list} tabIndex={0} role="group" aria-label="Filtered ACKs">
            <table class="data">
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">Flow</th>
                  <th scope="col" class="number">ACK</th>
                  <th scope="col" class="number wide">Newest</th>
                  <th scope="col">Rule</th>
                </tr>
              </thead>
              <tbody>
                {fits.slice(from, from + ROWS).map((place) => (
                  <tr key={place} class={place === fits[here] ? "chosen" : ""}>
                    <td>
                      <button type="button" class="link" onClick={() => moveTo(acks.time[place]!)}>
                        {acks.time[place]!.toFixed(6)} s
                      </button>
                    </td>
                    <td>{flowName(acks.flow[place]!)}</td>
                    <td class="number">{acks.ack[place]}</td>
                    <td class="number wide">{acks.newest[place]}</td>
                    <td>{RULES[acks.rule[place]!]?.[0]}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <p class="note">
            {fits.length > ROWS ? `${ROWS} (around the cursor)` : `${fits.length}`} of {figures(acks.count)} filtered ACKs
            {acks.count > acks.time.length ? `, of which only the first ${figures(acks.time.length)} can be listed` : ""}
          </p>
        </>
      )}
    </section>
  );
}
