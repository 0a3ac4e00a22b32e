// The network. Links are coloured by their utilisation at the time under the cursor. Each direction has a line of its
// own, on its right-hand side.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Json, Link, Run, World } from "./api";
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

/** Of the picture: a narrow screen has a narrow one, so that names can be read. */
const WIDTH = 1000;
const NARROW = 460;

/** What a qdisc lets through, in bit/s, where a link has no rate of its own. */
function shapedRate(run: Run, port: string): number | null {
  const qdiscs: Json[] = run.tc.find((it) => it.port === port)?.json ?? [];
  for (const { kind, options } of qdiscs) {
    const rate = kind === "cake" ? options?.bandwidth : kind === "tbf" ? options?.rate : null;
    if (typeof rate === "number" && rate > 0) return rate * 8;
  }
  return null;
}

interface Way {
  port: string;
  link: Link;
  end: 0 | 1;
  path: string;
  arrow: Point & { turn: number };
}

/** Whether the screen is a phone's. */
function usePhone(): boolean {
  const media = useMemo(() => matchMedia("(max-width: 640px)"), []);
  const [is, set] = useState(media.matches);
  useEffect(() => {
    const settle = () => set(media.matches);
    media.addEventListener("change", settle);
    return () => media.removeEventListener("change", settle);
  }, []);
  return is;
}

export function Topology({ run, world, use }: { run: Run; world: World; use: Utilisation | null }) {
  const time = useStore(cursor);
  const dark = useStore(theme) === "dark";
  const [chosen, choose] = useState<string>("");
  const [all, setAll] = useState(false);
  const points = useMemo(() => layout(world), [world]);
  const width = usePhone() ? NARROW : WIDTH;
  const drawing = useMemo(() => draw(world, points, width), [world, points, width]);
  const shaped = useMemo(() => new Map(world.links.flatMap((link) => link.ports.map((port) => [port, shapedRate(run, port)] as const))), [run, world]);
  const step = use ? spanAt(use.time, time) : -1;
  const share = (port: string) => {
    const ppm = use?.links[port]?.ppm[step];
    if (ppm != null) return ppm / 1e6;
    const [sent, most] = [use?.links[port]?.bits_per_sec[step], shaped.get(port)];
    return sent != null && most ? sent / most : null;
  };
  const rateOf = (way: Way) => {
    const own = way.link.rate[way.end];
    if (own !== null) return metricPrefix(own, "bit/s");
    const most = shaped.get(way.port);
    return most ? `${metricPrefix(most, "bit/s")} (shaped)` : "no limit";
  };
  const rate = (port: string) => use?.links[port]?.bits_per_sec[step] ?? null;
  const isCut = (link: Link) => link.events.reduce((up, [at, works]) => (at <= time ? works : up), true) === false;
  const crowded = world.nodes.length > 60;
  const narrow = crowded || drawing.narrow;
  const isHost = useMemo(() => new Set(world.nodes.filter((node) => node.role === "host").map((node) => node.name)), [world]);
  const rows = drawing.ways
    .filter((way) => use?.links[way.port])
    .sort((a, b) => (share(b.port) ?? -1) - (share(a.port) ?? -1) || a.port.localeCompare(b.port));
  const shownRows = all ? rows : rows.slice(0, 8);
  return (
    <section class="topology card" data-view="topology">
      <header>
        <h2>Network</h2>
        <span class="note">
          {use && use.time.length > 0 ? `link utilisation at ${timeText(time, whole.get()[1])}` : "link utilisation was not recorded; `ackwright run --view` records it"}
        </span>
        <span class="scale" aria-hidden="true">
          0 %
          <i style={{ background: `linear-gradient(to right, ${[0, 0.4, 0.85, 1].map((at) => `${useColour(at, dark)} ${at * 100}%`).join(",")})` }} />
          100 %
        </span>
      </header>
      <div class="scroll" tabIndex={0} role="group" aria-label="Picture of the network">
        <svg viewBox={`0 0 ${width} ${drawing.height}`} role="img" aria-label={`Network of ${world.nodes.length} nodes and ${world.links.length} links`} style={{ minWidth: crowded ? "640px" : "0" }}>
          {drawing.ways.map((way) => {
            const used = share(way.port);
            const cut = isCut(way.link);
            const thin = crowded || (narrow && way.link.ends.some((end) => isHost.has(end)));
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
                  stroke-width={thin ? 2.5 : 5}
                  fill="none"
                />
                {!thin && (
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
            {shownRows.length < rows.length ? `The ${shownRows.length} busiest of ${rows.length} directions` : `All ${rows.length} directions`}, at {timeText(time, whole.get()[1])}
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
          {all ? "Show only the busiest" : `Show all ${rows.length}`}
        </button>
      )}
    </section>
  );
}

/** Positions in the picture, and a path for each direction of each link. */
function draw(world: World, points: Point[], width: number) {
  const ys = points.map((it) => it.y);
  const [low, high] = [Math.min(...ys, 0.5), Math.max(...ys, 0.5)];
  const flat = high - low;
  const height = Math.round(Math.max(150, Math.min(520, flat * width * 0.62 + 120)));
  const margin = width === NARROW ? 46 : 90;
  const at = points.map(({ x, y }) => ({
    x: margin + x * (width - 2 * margin),
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
