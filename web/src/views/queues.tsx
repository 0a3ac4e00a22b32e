// Queues: length, delay, marks and drops of a port; of CAKE its tins; and what tc showed at the end.

import { type Json, type Run } from "../api";
import { Chart, type Line } from "../chart";
import { figures, metricPrefix, UNITS } from "../format";
import { go, place, useStore } from "../store";

export function Queues({ run }: { run: Run }) {
  const address = useStore(place);
  const ports = run.series.filter((name) => name.startsWith("port-")).map((name) => name.slice("port-".length));
  const port = ports.includes(address.port ?? "") ? address.port! : ports[0];
  if (!port) return <p class="nothing card">No queue was watched: name ports in `queues` of [measure], or give a port a qdisc.</p>;
  const line = (column: string, label: string): Line => ({ run: run.name, series: `port-${port}`, column, label });
  const tins = run.series
    .filter((name) => name.startsWith(`tin-${port}-`))
    .map((name) => ({ series: name, name: name.slice(`tin-${port}-`.length).replace(/^\d+-/, "").replaceAll("_", " ") }));
  const ofTins = (column: string): Line[] => tins.map((tin) => ({ run: run.name, series: tin.series, column, label: tin.name }));
  const shown = run.tc.find((it) => it.port === port);
  const isCake = JSON.stringify(shown?.json ?? null).includes('"tins"');
  return (
    <>
      <section class="card">
        <header>
          <h2>Queue of</h2>
          <label>
            <span class="hidden">Port</span>
            <select value={port} onChange={(event) => go({ port: event.currentTarget.value })}>
              {ports.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          <span class="note">{(shown?.json as Json[] | undefined)?.map((it) => it.kind).join(", ")}</span>
        </header>
      </section>
      <div class="charts" data-view="queue-lines">
        <Chart title="Queue length" unit={UNITS.packets} lines={[{ ...line("queue_packets", "packets"), steps: true }]} />
        <Chart title="Queue delay" unit={UNITS.micros} lines={[line("queue_delay_us", "delay")]} note="mean over the packets that left since the previous sample" />
        <Chart title="Marks and drops" unit={UNITS.packets} lines={[line("marks", "marks"), line("drops", "drops")]} />
        {tins.length > 0 && (
          <>
            <Chart title="Tins: enqueued" unit={UNITS.rate} lines={ofTins("enqueued_bits_per_sec")} />
            <Chart title="Tins: backlog" unit={UNITS.bytes} lines={ofTins("backlog_bytes")} />
            <Chart title="Tins: average delay" unit={UNITS.micros} lines={ofTins("average_delay_us")} />
            <Chart title="Tins: drops" unit={UNITS.packets} lines={ofTins("drops")} />
            <Chart title="Tins: marks" unit={UNITS.packets} lines={ofTins("ecn_mark")} />
            <Chart title="Tins: ACKs filtered" unit={UNITS.packets} lines={ofTins("ack_drops")} />
          </>
        )}
      </div>
      {isCake && tins.length === 0 && <p class="nothing card">The tins were not recorded over time; `ackwright run --view` records them. Their final state is below.</p>}
      {shown && <Tc text={shown.text} json={shown.json} />}
    </>
  );
}

const ROWS: [string, string, (value: number) => string][] = [
  ["threshold_rate", "rate", (it) => metricPrefix(it * 8, "bit/s")],
  ["sent_packets", "packets", figures],
  ["sent_bytes", "bytes", (it) => metricPrefix(it, "B")],
  ["backlog_bytes", "backlog", (it) => metricPrefix(it, "B")],
  ["target_us", "target", (it) => `${figures(it / 1000)} ms`],
  ["interval_us", "interval", (it) => `${figures(it / 1000)} ms`],
  ["peak_delay_us", "peak delay", (it) => `${figures(it / 1000)} ms`],
  ["avg_delay_us", "average delay", (it) => `${figures(it / 1000)} ms`],
  ["base_delay_us", "base delay", (it) => `${figures(it / 1000)} ms`],
  ["drops", "drops", figures],
  ["ecn_mark", "marks", figures],
  ["ack_drops", "ACKs filtered", figures],
  ["sparse_flows", "sparse flows", figures],
  ["bulk_flows", "bulk flows", figures],
  ["unresponsive_flows", "unresponsive flows", figures],
  ["way_collisions", "hash collisions", figures],
  ["max_pkt_len", "largest packet", (it) => metricPrefix(it, "B")],
];

const TINS: Record<number, string[]> = { 1: ["Tin 0"], 3: ["Bulk", "Best Effort", "Voice"], 4: ["Bulk", "Best Effort", "Video", "Voice"] };

/** What `tc -s qdisc show` showed at the end, the tins of a CAKE as a table. */
export function Tc({ text, json }: { text: string; json: Json }) {
  const qdiscs: Json[] = Array.isArray(json) ? json : [];
  return (
    <section class="card" data-view="tc">
      <h2>Final state, as tc shows it</h2>
      {qdiscs
        .filter((it) => Array.isArray(it.tins))
        .map((it) => {
          const tins: Json[] = it.tins;
          const names = TINS[tins.length] ?? tins.map((_: Json, index: number) => `Tin ${index}`);
          return (
            <div class="scroll" key={it.handle} tabIndex={0} role="group" aria-label="Tins">
              <table class="data tins">
                <caption class="quiet">Tins of {it.kind} {it.handle}</caption>
                <thead>
                  <tr>
                    <td />
                    {names.map((name) => (
                      <th scope="col" class="number" key={name}>
                        {name}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {ROWS.filter(([key]) => tins[0]?.[key] !== undefined).map(([key, name, text]) => (
                    <tr key={key}>
                      <th scope="row">{name}</th>
                      {tins.map((tin: Json, index: number) => (
                        <td class="number" key={index} data-tin={`${key} ${index}`}>
                          {text(tin[key])}
                        </td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          );
        })}
      {text && (
        <details open={!qdiscs.some((it) => Array.isArray(it.tins))}>
          <summary>tc -s qdisc show</summary>
          <pre tabIndex={0}>{text}</pre>
        </details>
      )}
    </section>
  );
}
