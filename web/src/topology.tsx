// The network, its links coloured by how much of them is used at the time under the cursor: each direction has a
// line of its own, to the right of its way.

import { useMemo, useState } from "preact/hooks";
import type { Link, World } from "./api";
import { useColour } from "./colour";
import { figures, metricPrefix, timeText } from "./format";
import { layout, type Point } from "./layout";
import { cursor, theme, useStore, whole } from "./store";

export interface Utilisation {
  time: number[];
  links: Record<string, { ppm: (number | null)[]; bits_per_sec: (number | null)[] }>;
}

/** The span that holds a time: each is called by its end. */
export function spanAt(time: number[], at: number): number {
  let [low, high] = [0, time.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return Math.min(low, time.length - 1);
}

const WIDTH = 1000;

interface Way {
  port: string;
  link: Link;
  end: 0 | 1;
  path: string;
  arrow: Point & { turn: number };
}

export function Topology({ world, use }: { world: World; use: Utilisation | null }) {
  const time = useStore(cursor);
  const dark = useStore(theme) === "dark";
  const [chosen, choose] = useState<string>("");
  const [all, setAll] = useState(false);
  const points = useMemo(() => layout(world), [world]);
  const drawing = useMemo(() => draw(world, points), [world, points]);
  const step = use ? spanAt(use.time, time) : -1;
  const share = (port: string) => {
    const ppm = use?.links[port]?.ppm[step];
    return ppm == null ? null : ppm / 1e6;
  };
  const rate = (port: string) => use?.links[port]?.bits_per_sec[step] ?? null;
  const isCut = (link: Link) => link.events.reduce((up, [at, works]) => (at <= time ? works : up), true) === false;
  const crowded = world.nodes.length > 60;
  const narrow = crowded || drawing.narrow;
  const rows = drawing.ways
    .filter((way) => use?.links[way.port])
    .sort((a, b) => (share(b.port) ?? -1) - (share(a.port) ?? -1) || a.port.localeCompare(b.port));
  const shownRows = all ? rows : rows.slice(0, 8);
  return (
    <section class="topology card" data-view="topology">
      <header>
        <h2>Network</h2>
        <span class="note">
          {use && use.time.length > 0 ? `use of links at ${timeText(time, whole.get()[1])}` : "the use of links was not recorded: `ackwright run --view` does"}
        </span>
        <span class="scale" aria-hidden="true">
          0 %
          <i style={{ background: `linear-gradient(to right, ${[0, 0.4, 0.85, 1].map((at) => `${useColour(at, dark)} ${at * 100}%`).join(",")})` }} />
          100 %
        </span>
      </header>
      <div class="scroll" tabIndex={0} role="group" aria-label="The network as a picture">
        <svg viewBox={`0 0 ${WIDTH} ${drawing.height}`} role="img" aria-label={`Network of ${world.nodes.length} nodes and ${world.links.length} links`} style={{ minWidth: crowded ? "640px" : "0" }}>
          {drawing.ways.map((way) => {
            const used = share(way.port);
            const cut = isCut(way.link);
            const colour = used === null ? "var(--rule)" : useColour(used, dark);
            const title = `${way.port}: ${rateOf(way)}${used === null ? "" : `, ${figures(used * 100)} % used`}${cut ? ", cut" : ""}`;
            return (
              <g key={way.port} class={chosen === way.port ? "way chosen" : "way"} onClick={() => choose(way.port)}>
                <path d={way.path} stroke="transparent" stroke-width="16" fill="none" />
                <path
                  d={way.path}
                  data-port={way.port}
                  data-use={used === null ? "" : used}
                  stroke={cut ? "var(--bad)" : colour}
                  stroke-dasharray={cut ? "4 6" : undefined}
                  stroke-width={crowded ? 2.5 : 5}
                  fill="none"
                />
                {!crowded && (
                  <path d="M-6 -5 L6 0 L-6 5 Z" fill={cut ? "var(--bad)" : colour} transform={`translate(${way.arrow.x} ${way.arrow.y}) rotate(${way.arrow.turn})`} />
                )}
                <title>{title}</title>
              </g>
            );
          })}
          {world.nodes.map((node, index) => {
            const at = drawing.at[index]!;
            const small = narrow && node.role === "host";
            const wide = Math.max(44, node.name.length * 9.5 + 18);
            return (
              <g key={node.name} transform={`translate(${at.x} ${at.y})`} class={`node ${node.role}`}>
                {small ? <circle r="6" /> : node.role === "router" ? <rect x={-wide / 2} y="-17" width={wide} height="34" rx="17" /> : <rect x={-wide / 2} y="-17" width={wide} height="34" rx="4" />}
                {!small && (
                  <text y="6" text-anchor="middle">
                    {node.name}
                  </text>
                )}
                <title>{`${node.name}, ${node.role}`}</title>
              </g>
            );
          })}
        </svg>
      </div>
      {rows.length > 0 && (
        <table class="data">
          <caption class="quiet">
            {shownRows.length < rows.length ? `The ${shownRows.length} most used of ${rows.length} directions` : `All ${rows.length} directions`}, at {timeText(time, whole.get()[1])}
          </caption>
          <thead>
            <tr>
              <th scope="col">Port</th>
              <th scope="col" class="number">Rate</th>
              <th scope="col" class="number">Sent</th>
              <th scope="col" class="number">Used</th>
              <th scope="col" class="wide">Queue</th>
            </tr>
          </thead>
          <tbody>
            {shownRows.map((way) => {
              const used = share(way.port);
              const sent = rate(way.port);
              return (
                <tr key={way.port} class={chosen === way.port ? "chosen" : ""} data-link={way.port} onClick={() => choose(way.port)}>
                  <th scope="row">
                    <i class="swatch" style={{ color: used === null ? "var(--rule)" : useColour(used, dark) }} />
                    {way.port}
                  </th>
                  <td class="number">{rateOf(way)}</td>
                  <td class="number" data-sent>{sent === null ? "–" : metricPrefix(sent, "bit/s")}</td>
                  <td class="number" data-used>{used === null ? "–" : `${figures(used * 100)} %`}</td>
                  <td class="wide">{way.link.qdisc[way.end].join("; ") || "default"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {rows.length > 8 && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? "Show the most used" : `Show all ${rows.length}`}
        </button>
      )}
    </section>
  );
}

function rateOf(way: Way): string {
  const rate = way.link.rate[way.end];
  return rate === null ? "no limit" : metricPrefix(rate, "bit/s");
}

/** Positions in the picture, and a path for each direction of each link. */
function draw(world: World, points: Point[]) {
  const ys = points.map((it) => it.y);
  const [low, high] = [Math.min(...ys, 0.5), Math.max(...ys, 0.5)];
  const flat = high - low;
  const height = Math.round(Math.max(150, Math.min(520, flat * 620 + 120)));
  const margin = 90;
  const at = points.map(({ x, y }) => ({
    x: margin + x * (WIDTH - 2 * margin),
    y: flat < 1e-6 ? height / 2 : 50 + ((y - low) / flat) * (height - 100),
  }));
  const index = new Map(world.nodes.map((node, place) => [node.name, place]));
  const between = new Map<string, Link[]>();
  for (const link of world.links) {
    const key = [...link.ends].sort().join("\n");
    between.set(key, [...(between.get(key) ?? []), link]);
  }
  const ways: Way[] = [];
  for (const [key, links] of between) {
    const [near] = key.split("\n");
    links.forEach((link, place) => {
      // Several links between the same nodes lie side by side as bows.
      const bow = (place - (links.length - 1) / 2) * 46;
      for (const end of [0, 1] as const) {
        const [from, to] = [at[index.get(link.ends[end])!], at[index.get(link.ends[1 - end]!)!]];
        if (!from || !to) continue;
        const sign = link.ends[end] === near ? 1 : -1;
        ways.push({ port: link.ports[end], link, end, ...path(from, to, bow * sign, 4.5) });
      }
    });
  }
  // Names that would lie on each other are left to the table.
  const wide = (place: number) => Math.max(44, world.nodes[place]!.name.length * 9.5 + 18);
  const hosts = at.map((point, place) => ({ ...point, place })).filter(({ place }) => world.nodes[place]!.role === "host");
  hosts.sort((a, b) => a.y - b.y || a.x - b.x);
  const narrow = hosts.some((one, place) => {
    const next = hosts[place + 1];
    return next !== undefined && Math.abs(next.y - one.y) < 34 && next.x - one.x < (wide(one.place) + wide(next.place)) / 2 + 2;
  });
  return { height, at, ways, narrow };
}

/** From one node to the other, to the right of the middle. */
function path(from: Point, to: Point, bow: number, aside: number): { path: string; arrow: Point & { turn: number } } {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [nx, ny] = [-dy / length, dx / length];
  const shift = ({ x, y }: Point): Point => ({ x: x + nx * aside, y: y + ny * aside });
  const [a, b] = [shift(from), shift(to)];
  const middle = { x: (a.x + b.x) / 2 + nx * bow, y: (a.y + b.y) / 2 + ny * bow };
  const arrow = {
    x: 0.16 * a.x + 0.48 * middle.x + 0.36 * b.x,
    y: 0.16 * a.y + 0.48 * middle.y + 0.36 * b.y,
    turn: (Math.atan2(dy, dx) * 180) / Math.PI,
  };
  return { path: `M${a.x} ${a.y} Q${middle.x} ${middle.y} ${b.x} ${b.y}`, arrow };
}
