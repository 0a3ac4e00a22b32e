// Values that several parts of the page share: the time under the cursor, the span that is shown.

import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  listen(hear: (value: T) => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const heard = new Set<(value: T) => void>();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const hear of [...heard]) hear(value);
    },
    listen(hear) {
      heard.add(hear);
      return () => heard.delete(hear);
    },
  };
}

export function useStore<T>(of: Store<T>): T {
  const [value, set] = useState<T>(of.get());
  useEffect(() => {
    set(of.get());
    return of.listen((next) => set(() => next));
  }, [of]);
  return value;
}

/** A span of time in seconds. */
export type Span = readonly [number, number];

/** The time under the cursor, in seconds. */
export const cursor = store<number>(0);
/** The whole of what is looked at, and the part that charts show. */
export const whole = store<Span>([0, 1]);
export const shown = store<Span>([0, 1]);
export const theme = store<"dark" | "light">("light");
/** What the whole page was called to: `#view=flow&run=seed-1`. */
export const place = store<Record<string, string>>(readPlace());

function readPlace(): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** Changes parts of the address; an empty value takes one away. */
export function go(parts: Record<string, string>): void {
  const next = { ...place.get(), ...parts };
  for (const [key, value] of Object.entries(next)) if (value === "") delete next[key];
  const hash = new URLSearchParams(next).toString();
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", `#${hash}`);
  place.set(next);
}

addEventListener("hashchange", () => place.set(readPlace()));

/** Shows this part, within the whole and never less than a microsecond. */
export function zoom(from: number, to: number): void {
  const [begin, end] = whole.get();
  const width = Math.min(Math.max(to - from, 1e-6), end - begin);
  const left = Math.min(Math.max(from, begin), end - width);
  shown.set([left, left + width]);
}

/** Moves the cursor, and what is shown with it if it would leave it. */
export function moveTo(time: number): void {
  const [begin, end] = whole.get();
  const at = Math.min(Math.max(time, begin), end);
  const [from, to] = shown.get();
  if (at < from || at > to) zoom(at - (to - from) / 2, at + (to - from) / 2);
  cursor.set(at);
}
