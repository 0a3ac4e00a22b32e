// A connection as tcptrace draws it: sequence numbers over time. Bars are segments, the lower line is what is
// acknowledged, the upper one how far the receiver's window reaches.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Graph, Marks } from "./api";
import { token } from "./colour";
import { figures, timeText } from "./format";
import { cursor, moveTo, shown, theme, useStore, zoom } from "./store";

export const KINDS = [
  { key: "new", name: "data", mark: "▍", colour: "--data" },
  { key: "again", name: "retransmitted", mark: "R", colour: "--bad" },
  { key: "dropped", name: "dropped here", mark: "✕", colour: "--bad" },
  { key: "ack", name: "acknowledged", mark: "▁", colour: "--ack" },
  { key: "window", name: "window", mark: "▔", colour: "--window" },
  { key: "sack", name: "SACK", mark: "▍", colour: "--sack" },
  { key: "dsack", name: "DSACK", mark: "▍", colour: "--dsack" },
  { key: "flag", name: "SYN, FIN, RST, CE, ECE", mark: "◆", colour: "--ink" },
] as const;

const FLAGS = ["S", "F", "R", "C", "E"];

/** The mark that is chosen: its kind and its place among those. */
export interface Chosen {
  kind: "data" | "acks" | "sacks" | "flags";
  place: number;
  packet: number;
}

interface Props {
  graph: Graph;
  chosen: Chosen | null;
  choose: (mark: Chosen) => void;
  hidden: Set<string>;
}

const LEFT = 64;
const BOTTOM = 26;
const TOP = 8;
const HEIGHT = 420;

interface Scale {
  x(time: number): number;
  y(number: number): number;
  time(x: number): number;
  number(y: number): number;
}

export function Sequence({ graph, chosen, choose, hidden }: Props) {
  const place = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const span = useStore(shown);
  const time = useStore(cursor);
  const look = useStore(theme);
  const drag = useRef<{ x: number; y: number; span: readonly [number, number]; moved: boolean } | null>(null);
  const pinch = useRef(new Map<number, number>());

  useEffect(() => {
    const box = place.current?.parentElement;
    if (!box) return;
    const watch = new ResizeObserver(() => setWidth(Math.floor(box.clientWidth)));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);

  const [low, high] = heights(graph, span);
  const scale: Scale = {
    x: (at) => LEFT + ((at - span[0]) / (span[1] - span[0])) * (width - LEFT - 8),
    y: (number) => HEIGHT - BOTTOM - ((number - low) / (high - low)) * (HEIGHT - BOTTOM - TOP),
    time: (x) => span[0] + ((x - LEFT) / (width - LEFT - 8)) * (span[1] - span[0]),
    number: (y) => low + ((HEIGHT - BOTTOM - y) / (HEIGHT - BOTTOM - TOP)) * (high - low),
  };

  useEffect(() => {
    const canvas = place.current;
    if (!canvas || width === 0) return;
    canvas.width = width * devicePixelRatio;
    canvas.height = HEIGHT * devicePixelRatio;
    const pen = canvas.getContext("2d")!;
    pen.scale(devicePixelRatio, devicePixelRatio);
    paint(pen, width, graph, scale, span, [low, high], hidden, chosen, time);
  }, [graph, width, span, look, hidden, chosen, time]);

  const near = (event: MouseEvent) => {
    const box = place.current!.getBoundingClientRect();
    return nearest(graph, scale, event.clientX - box.left, event.clientY - box.top, hidden);
  };

  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
    event.preventDefault();
    const box = place.current!.getBoundingClientRect();
    const at = scale.time(event.clientX - box.left);
    const factor = Math.exp(event.deltaY * 0.0015);
    zoom(at - (at - span[0]) * factor, at + (span[1] - at) * factor);
  };

  const keys = (event: KeyboardEvent) => {
    const [from, to] = span;
    const middle = cursor.get() >= from && cursor.get() <= to ? cursor.get() : (from + to) / 2;
    const part = (to - from) / 10;
    if (event.key === "+" || event.key === "=") zoom(middle - (middle - from) / 2, middle + (to - middle) / 2);
    else if (event.key === "-") zoom(middle - (middle - from) * 2, middle + (to - middle) * 2);
    else if (event.key === "ArrowLeft") zoom(from - part, to - part);
    else if (event.key === "ArrowRight") zoom(from + part, to + part);
    else if (event.key === "n" || event.key === "p") {
      const next = beside(graph, chosen, cursor.get(), event.key === "n");
      if (next) {
        choose(next);
        moveTo(graph[next.kind].time[next.place]!);
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <canvas
      ref={place}
      class="sequence"
      style={{ width: "100%", height: `${HEIGHT}px` }}
      tabIndex={0}
      role="img"
      data-marks={graph.data.time.length}
      aria-label="Sequence numbers over time. Arrow keys scroll, plus and minus zoom, n and p select the next and the previous packet."
      onWheel={wheel}
      onKeyDown={keys}
      onDblClick={() => zoom(graph.begin, graph.end)}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        pinch.current.set(event.pointerId, event.clientX);
        drag.current = { x: event.clientX, y: event.clientY, span, moved: false };
      }}
      onPointerMove={(event) => {
        const start = drag.current;
        const fingers = pinch.current;
        if (start && fingers.size === 2 && fingers.has(event.pointerId)) {
          const before = [...fingers.values()];
          fingers.set(event.pointerId, event.clientX);
          const after = [...fingers.values()];
          const apart = (pair: number[]) => Math.max(Math.abs(pair[0]! - pair[1]!), 10);
          const factor = apart(before) / apart(after);
          const middle = scale.time((after[0]! + after[1]!) / 2 - place.current!.getBoundingClientRect().left);
          start.moved = true;
          zoom(middle - (middle - span[0]) * factor, middle + (span[1] - middle) * factor);
        } else if (start) {
          const by = ((event.clientX - start.x) / (width - LEFT - 8)) * (start.span[1] - start.span[0]);
          if (Math.abs(event.clientX - start.x) > 4) start.moved = true;
          if (start.moved) zoom(start.span[0] - by, start.span[1] - by);
        } else {
          const found = near(event);
          if (found && (found.kind !== chosen?.kind || found.place !== chosen.place)) choose(found);
          const box = place.current!.getBoundingClientRect();
          const at = scale.time(event.clientX - box.left);
          if (at >= span[0] && at <= span[1]) cursor.set(at);
        }
      }}
      onPointerUp={(event) => {
        const start = drag.current;
        pinch.current.delete(event.pointerId);
        if (pinch.current.size > 0) return;
        drag.current = null;
        if (!start || start.moved) return;
        const found = near(event);
        if (found) {
          choose(found);
          moveTo(graph[found.kind].time[found.place]!);
        }
      }}
      onPointerCancel={(event) => {
        pinch.current.delete(event.pointerId);
        drag.current = null;
      }}
    />
  );
}

/** The numbers between which everything that is shown lies. */
function heights(graph: Graph, [from, to]: readonly [number, number]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  const within = (marks: Marks, top: (place: number) => number) => {
    for (let place = first(marks.time, from); place < marks.time.length && marks.time[place]! <= to; place++) {
      low = Math.min(low, marks.from[place]!);
      high = Math.max(high, top(place));
    }
  };
  within(graph.data, (place) => graph.data.to[place]!);
  // The window may reach far beyond everything: a bit of the way is enough.
  within(graph.acks, (place) => graph.acks.from[place]!);
  if (low > high) [low, high] = [0, Math.max(graph.top, 1)];
  const room = Math.max((high - low) * 0.04, 1);
  return [low - room, high + room * 2];
}

/** The first place at or after a time, one before it if there is one: steps come from there. */
function first(time: number[], from: number): number {
  let [low, high] = [0, time.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}

function paint(
  pen: CanvasRenderingContext2D,
  width: number,
  graph: Graph,
  scale: Scale,
  span: readonly [number, number],
  [low, high]: [number, number],
  hidden: Set<string>,
  chosen: Chosen | null,
  time: number,
): void {
  const [ink, soft, rule] = [token("--ink"), token("--soft"), token("--rule")];
  pen.clearRect(0, 0, width, HEIGHT);
  pen.font = "11px system-ui, sans-serif";
  axes(pen, width, scale, span, [low, high], soft, rule);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT, HEIGHT - BOTTOM);
  pen.clip();
  const each = (marks: Marks, draw: (place: number) => void) => {
    for (let place = first(marks.time, span[0]); place < marks.time.length; place++) {
      if (marks.time[place]! > span[1]) break;
      draw(place);
    }
  };
  const steps = (key: string, colour: string, value: (place: number) => number) => {
    if (hidden.has(key)) return;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.2;
    pen.beginPath();
    let begun = false;
    let before = 0;
    const { acks } = graph;
    for (let place = first(acks.time, span[0]); place < acks.time.length; place++) {
      const [x, y] = [scale.x(acks.time[place]!), scale.y(value(place))];
      if (begun) {
        pen.lineTo(x, before);
        pen.lineTo(x, y);
      } else pen.moveTo(x, y);
      begun = true;
      before = y;
      if (acks.time[place]! > span[1]) break;
    }
    if (begun) pen.lineTo(Math.min(scale.x(span[1]), width), before);
    pen.stroke();
  };
  steps("window", token("--window"), (place) => graph.acks.to[place]!);
  steps("ack", token("--ack"), (place) => graph.acks.from[place]!);
  const { data, sacks, flags } = graph;
  const wide = Math.min(4, Math.max(1.4, (width - LEFT) / 900));
  const bar = (at: number, from: number, to: number, colour: string, thick: number) => {
    const [x, top] = [scale.x(at), scale.y(to)];
    pen.fillStyle = colour;
    pen.fillRect(x - thick / 2, top, thick, Math.max(scale.y(from) - top, 1.6));
  };
  const colours = { data: token("--data"), bad: token("--bad"), sack: token("--sack"), dsack: token("--dsack") };
  each(sacks, (place) => {
    const double = sacks.kind[place] === 1;
    if (hidden.has(double ? "dsack" : "sack")) return;
    bar(sacks.time[place]!, sacks.from[place]!, sacks.to[place]!, double ? colours.dsack : colours.sack, 1.6);
  });
  each(data, (place) => {
    if (data.kind[place] === 0 && !hidden.has("new")) bar(data.time[place]!, data.from[place]!, data.to[place]!, colours.data, wide);
  });
  pen.textAlign = "center";
  each(data, (place) => {
    const kind = data.kind[place]!;
    if (kind === 0 || hidden.has(kind === 1 ? "again" : "dropped")) return;
    bar(data.time[place]!, data.from[place]!, data.to[place]!, colours.bad, wide + 1);
    pen.fillText(kind === 1 ? "R" : "✕", scale.x(data.time[place]!), scale.y(data.to[place]!) - 3);
  });
  pen.fillStyle = ink;
  if (!hidden.has("flag")) {
    each(flags, (place) => pen.fillText(FLAGS[flags.kind[place]!] ?? "?", scale.x(flags.time[place]!), scale.y(flags.to[place]!) + 12));
  }
  if (chosen) {
    const marks = graph[chosen.kind];
    const at = marks.time[chosen.place];
    if (at !== undefined) {
      const [x, top] = [scale.x(at), scale.y(chosen.kind === "acks" ? marks.from[chosen.place]! : marks.to[chosen.place]!)];
      pen.strokeStyle = token("--focus");
      pen.lineWidth = 2;
      pen.strokeRect(x - 5, top - 4, 10, Math.max(scale.y(marks.from[chosen.place]!) - top, 0) + 8);
    }
  }
  pen.strokeStyle = soft;
  pen.lineWidth = 1;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  pen.moveTo(scale.x(time), 0);
  pen.lineTo(scale.x(time), HEIGHT);
  pen.stroke();
  pen.restore();
  pen.setLineDash([]);
}

function axes(
  pen: CanvasRenderingContext2D,
  width: number,
  scale: Scale,
  span: readonly [number, number],
  [low, high]: [number, number],
  ink: string,
  rule: string,
): void {
  pen.fillStyle = ink;
  pen.strokeStyle = rule;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  const wide = ticks(span[0], span[1], Math.max(2, Math.floor(width / 120)));
  for (const at of wide) {
    const x = Math.round(scale.x(at)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, HEIGHT - BOTTOM);
    pen.stroke();
    pen.fillText(`${+at.toFixed(9)}`, x, HEIGHT - 9);
  }
  pen.textAlign = "right";
  for (const at of ticks(low, high, 7)) {
    const y = Math.round(scale.y(at)) + 0.5;
    pen.beginPath();
    pen.moveTo(LEFT, y);
    pen.lineTo(width, y);
    pen.stroke();
    pen.fillText(Math.abs(at) >= 1e6 ? `${figures(at / 1e6)} MB` : Math.abs(at) >= 1e3 ? `${figures(at / 1e3)} kB` : `${at} B`, LEFT - 6, y + 4);
  }
}

/** Round numbers between two. */
export function ticks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough) ?? power * 10;
  const out: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) out.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  return out;
}

/** The mark nearest to a place of the picture, no more than 24 pixels away. */
function nearest(graph: Graph, scale: Scale, x: number, y: number, hidden: Set<string>): Chosen | null {
  let best: Chosen | null = null;
  let far = 24;
  const look = (kind: Chosen["kind"], marks: Marks, point: boolean, weight: number, isHidden: (place: number) => boolean) => {
    const from = first(marks.time, scale.time(x - far));
    const until = scale.time(x + far);
    for (let place = from; place < marks.time.length && marks.time[place]! <= until; place++) {
      if (isHidden(place)) continue;
      const [top, bottom] = [scale.y(point ? marks.from[place]! : marks.to[place]!), scale.y(marks.from[place]!)];
      const dy = y < top ? top - y : y > bottom ? y - bottom : 0;
      const length = Math.hypot(scale.x(marks.time[place]!) - x, dy) + weight;
      if (length < far) {
        far = length;
        best = { kind, place, packet: marks.packet[place]! };
      }
    }
  };
  const data = ["new", "again", "dropped"];
  look("data", graph.data, false, 0, (place) => hidden.has(data[graph.data.kind[place]!]!));
  look("flags", graph.flags, true, 1, () => hidden.has("flag"));
  look("sacks", graph.sacks, false, 1, (place) => hidden.has(graph.sacks.kind[place] === 1 ? "dsack" : "sack"));
  look("acks", graph.acks, true, 2, () => hidden.has("ack"));
  return best;
}

/** The next data packet, or the one before. */
function beside(graph: Graph, chosen: Chosen | null, time: number, next: boolean): Chosen | null {
  const { data } = graph;
  const here = chosen?.kind === "data" ? chosen.place : first(data.time, time) - (next ? 1 : 0);
  const place = here + (next ? 1 : -1);
  const packet = data.packet[place];
  return packet === undefined ? null : { kind: "data", place, packet };
}

export function markText(graph: Graph, chosen: Chosen): string {
  const marks = graph[chosen.kind];
  return timeText(marks.time[chosen.place] ?? 0, 0.1);
}
