// Time lines. Each shows a part of some series, fetched anew (and as fine as the screen is) when another part is
// shown, and follows the cursor that all of them share.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { ask, exported, type Part } from "./api";
import { lineColour, token } from "./colour";
import type { Unit } from "./format";
import { moveTo, cursor, shown, type Span, theme, useStore, whole, zoom } from "./store";

export interface Line {
  run: string;
  /** The series and its column. */
  series: string;
  column: string;
  label: string;
  dashed?: boolean;
  colour?: number;
  /** It holds its value until the next sample. */
  steps?: boolean;
}

interface Props {
  title: string;
  unit: Unit;
  lines: Line[];
  height?: number;
  /** What is said where there is nothing. */
  empty?: string;
  note?: string;
}

/** What a line is at a time: one sample, or the least and the greatest of those that one pixel stands for. */
export interface Reading {
  low: number | null;
  high: number | null;
}

export function read(part: Part | undefined, column: string, time: number): Reading {
  const values = part?.columns[column];
  if (!part || !values || part.time.length === 0) return { low: null, high: null };
  let low = 0;
  let high = part.time.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (part.time[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  const index = low - 1;
  if (index < 0) return { low: null, high: null };
  if (part.exact) return { low: values[index] ?? null, high: values[index] ?? null };
  const pair = [values[index - (index % 2)], values[index - (index % 2) + 1]].filter((it) => it != null) as number[];
  return pair.length === 0 ? { low: null, high: null } : { low: Math.min(...pair), high: Math.max(...pair) };
}

export function readingText(reading: Reading, unit: Unit): string {
  if (reading.low === null || reading.high === null) return "–";
  if (reading.low === reading.high) return unit.text(reading.low);
  return `${unit.text(reading.low)} … ${unit.text(reading.high)}`;
}

/** One request a series, whatever columns of it are drawn. */
export function parts(lines: Line[], span: Span, all: Span, pixels: number): Promise<(Part | undefined)[]> {
  const [from, to] = span;
  const chosen: Record<string, string | number> = from <= all[0] && to >= all[1] ? { pixels } : { from: from.toFixed(9), to: to.toFixed(9), pixels };
  return Promise.all(
    lines.map((line) =>
      ask<Part>("series", { run: line.run, name: line.series }, chosen).catch(() => undefined),
    ),
  );
}

/** Lines whose samples lie at the same times share an axis; others are put together. */
function aligned(lines: Line[], found: (Part | undefined)[], unit: Unit): uPlot.AlignedData {
  const tables = lines.map((line, index) => {
    const part = found[index];
    const values = part?.columns[line.column];
    const scaled = values?.map((value) => (value === null ? null : value * unit.factor)) ?? [];
    return [part && values ? part.time : [], scaled] as [number[], (number | null)[]];
  });
  const first = tables.find(([time]) => time.length > 0)?.[0] ?? [];
  const same = tables.every(
    ([time]) =>
      time.length === 0 || (time.length === first.length && time[0] === first[0] && time.at(-1) === first.at(-1)),
  );
  if (same) {
    const none = first.map(() => null);
    return [first, ...tables.map(([time, values]) => (time.length === 0 ? none : values))];
  }
  return uPlot.join(tables.filter(([time]) => time.length > 0) as uPlot.AlignedData[]);
}

/** Puts a chart's own cursor to the time that all share, and tells nobody. */
function stand(made: uPlot): void {
  // The third argument, which the types don't know, keeps it from publishing.
  const set = made.setCursor as (at: { left: number; top: number }, fire: boolean, publish: boolean) => void;
  set({ left: made.valToPos(cursor.get(), "x"), top: 10 }, false, false);
}

/** A number of pixels that doesn't change with each little change of a window: answers are kept. */
function columns(width: number): number {
  return Math.min(4096, Math.max(256, Math.ceil((width * devicePixelRatio) / 256) * 256));
}

export function Chart({ title, unit, lines, height = 150, empty, note }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const span = useStore(shown);
  const all = useStore(whole);
  const time = useStore(cursor);
  const look = useStore(theme);
  const [found, setFound] = useState<(Part | undefined)[] | null>(null);
  const [width, setWidth] = useState(0);
  const key = JSON.stringify(lines);

  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const watch = new ResizeObserver(() => setWidth(Math.floor(box.clientWidth)));
    watch.observe(box);
    setWidth(Math.floor(box.clientWidth));
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    if (width === 0) return;
    let wanted = true;
    const timer = setTimeout(() => {
      parts(lines, span, all, columns(width)).then((next) => wanted && setFound(next));
    }, found === null ? 0 : 60);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [key, span, all, width]);

  const data = useMemo(() => (found ? aligned(lines, found, unit) : null), [found, key]);

  useEffect(() => {
    const box = place.current;
    if (!box || width === 0 || !data || data[0].length === 0) return;
    const dark = look === "dark";
    const ink = token("--soft");
    const rule = token("--rule");
    let asked = 0;
    const options: uPlot.Options = {
      width,
      height,
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 6 },
        drag: { x: true, y: false, setScale: false },
        sync: { key: "time" },
      },
      scales: {
        x: { time: false, range: () => [shown.get()[0], shown.get()[1]] },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) <= 0 ? 1 : (high ?? 1) * 1.08] },
      },
      axes: [
        { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { show: false }, size: 28, font: "11px system-ui" },
        {
          stroke: ink,
          grid: { stroke: rule, width: 1 },
          ticks: { show: false },
          size: 56,
          font: "11px system-ui",
          values: (_, ticks) => ticks.map((tick) => (Math.abs(tick) >= 10_000 ? `${tick / 1000}k` : String(+tick.toPrecision(6)))),
        },
      ],
      series: [
        {},
        ...lines.map((line, index) => ({
          label: line.label,
          stroke: lineColour(line.colour ?? index, dark),
          width: 1.5,
          points: { show: false },
          ...(line.dashed ? { dash: [6, 4] } : {}),
          ...(line.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
        })),
      ],
      hooks: {
        ready: [(self) => stand(self)],
        setCursor: [
          (self) => {
            const left = self.cursor.left ?? -1;
            // Only the chart that the pointer is over tells the others.
            if (left < 0 || self.cursor.event == null) return;
            cancelAnimationFrame(asked);
            asked = requestAnimationFrame(() => cursor.set(self.posToVal(left, "x")));
          },
        ],
        setSelect: [
          (self) => {
            const { left, width: wide } = self.select;
            if (wide < 4) return;
            zoom(self.posToVal(left, "x"), self.posToVal(left + wide, "x"));
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    };
    const made = new uPlot(options, data, box);
    made.over.addEventListener("dblclick", () => shown.set(whole.get()));
    plot.current = made;
    return () => {
      cancelAnimationFrame(asked);
      made.destroy();
      plot.current = null;
    };
  }, [data, width, look]);

  // The line of the cursor, wherever it is moved from.
  useEffect(() => {
    const made = plot.current;
    if (made && made.cursor.event == null) stand(made);
  }, [time]);

  const several = lines.length > 1;
  const nothing = found !== null && (data === null || data[0].length === 0);
  const coarse = exported && found?.some((part) => part && !part.exact) && (span[0] > all[0] || span[1] < all[1]);
  return (
    <section class="chart" data-chart={title}>
      <header>
        <h3>
          {title} <small>[{unit.name || "count"}]</small>
        </h3>
        {note && <span class="note">{note}</span>}
      </header>
      <div
        class="plot"
        ref={place}
        role="img"
        tabIndex={0}
        aria-label={`${title} over time; arrow keys move the cursor`}
        style={{ minHeight: nothing ? "0" : `${height}px` }}
        onKeyDown={stepKeys}
      />
      {nothing && <p class="nothing">{empty ?? "Nothing was recorded here."}</p>}
      {coarse && <p class="nothing">This exported page contains about 1500 columns of each series; `ackwright view` has every sample.</p>}
      {!nothing && (
        <ul class="legend">
          {lines.map((line, index) => (
            <li key={line.label + line.run}>
              <i class={line.dashed ? "swatch dashed" : "swatch"} style={{ color: lineColour(line.colour ?? index, look === "dark") }} />
              {several || line.label !== title ? <span class="name">{line.label}</span> : null}
              <b data-value={`${line.series} ${line.column}`}>{readingText(read(found?.[index], line.column, time), unit)}</b>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Arrow keys move the cursor by a hundredth of what is shown, with Shift by a tenth. */
export function stepKeys(event: KeyboardEvent): void {
  const [from, to] = shown.get();
  const step = (to - from) / (event.shiftKey ? 10 : 100);
  if (event.key === "ArrowLeft") moveTo(cursor.get() - step);
  else if (event.key === "ArrowRight") moveTo(cursor.get() + step);
  else if (event.key === "Home") moveTo(from);
  else if (event.key === "End") moveTo(to);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
