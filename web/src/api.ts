// Questions to the server, or to what an exported page holds.

export interface RunName {
  name: string;
  seed: number;
  labels: Record<string, string>;
  end: number;
  viewed: boolean;
}

export interface Index {
  kind: "results" | "capture" | "live";
  path: string;
  version: string;
  name?: string;
  title?: string;
  unfinished?: number;
  left_out?: number;
  runs?: RunName[];
}

export interface Link {
  name: string;
  ends: [string, string];
  ports: [string, string];
  rate: [number | null, number | null];
  delay_ns: [number, number];
  loss_ppm: [number, number];
  mtu: number;
  qdisc: [string[], string[]];
  events: [number, boolean][];
}

export interface Flow {
  name: string;
  group: string | null;
  app: string;
  from: string;
  to: string;
  tcp: boolean;
  port: number;
}

export interface World {
  duration: number;
  sample: number;
  nodes: { name: string; role: "host" | "router" }[];
  links: Link[];
  flows: Flow[];
  workloads: string[];
  queues: string[];
  captures: string[];
  utilisation: string[];
  /** All that `run --view` records was recorded. */
  viewed: boolean;
}

// deno-lint-ignore no-explicit-any
export type Json = any;

export interface Run {
  name: string;
  end: number;
  metrics: [string, string, string, number | null][];
  series: string[];
  tc: { port: string; text: string; json: Json }[];
  captures: string[];
  explained: string[];
  acks: string[];
  rings: boolean;
  world: World | null;
}

export interface Part {
  time: number[];
  columns: Record<string, (number | null)[]>;
  exact: boolean;
  samples: number;
}

export interface Way {
  segments: number;
  retransmitted: number;
  bytes: number;
}

export interface Connection {
  id: number;
  from: string;
  to: string;
  ports: [number, number];
  packets: number;
  begin: number;
  end: number;
  forth: Way;
  back: Way;
  main: "forth" | "back";
}

export interface Marks {
  time: number[];
  from: number[];
  to: number[];
  kind: number[];
  packet: number[];
  count: number[];
}

export interface Graph {
  connection: Connection;
  begin: number;
  end: number;
  from: number;
  to: number;
  top: number;
  joined: boolean;
  data: Marks;
  acks: Marks;
  sacks: Marks;
  flags: Marks;
}

export interface Decoded {
  packet: number;
  time: number;
  place: string;
  comment: string | null;
  summary: string;
  from: string;
  to: string;
  flaws: string[];
  length: number;
  headers: { name: string; fields: [string, string][] }[];
  bytes: string;
}

export interface Story {
  why: string[];
  events: {
    time: number;
    cwnd: number | null;
    ssthresh: number | null;
    flight: number | null;
    srtt_ms: number | null;
    kind: string;
    text: string;
    connection: string;
  }[];
}

export interface RingSnapshot {
  hops: { port: number; gateway: string | null; weight: number; bound: number; usable: boolean }[];
  buckets: number[] | null;
  flows: { flow: string; hash: number | null; hop: number | null }[];
}

export interface Rings {
  rings: {
    node: string;
    route: string;
    kind: string;
    ports: Record<string, string>;
    changes: { time: number; before: RingSnapshot | null; after: RingSnapshot | null }[];
    end: RingSnapshot | null;
    end_time: number;
  }[];
}

export interface Acks {
  count: number;
  rules: [number, number][];
  time: number[];
  rule: number[];
  ack: number[];
  flow: number[];
  newest: number[];
}

/** What names an answer, and what only chooses how much of it is given. */
type Words = Record<string, string | number>;

const inside = document.getElementById("answers");
const answers: Record<string, Json> | null = inside ? JSON.parse(inside.textContent ?? "{}") : null;

/** This page holds its answers and asks nobody. */
export const exported = answers !== null;

const kept = new Map<string, Promise<Json>>();
const KEPT_MAX = 400;

/** Asks; the same question is asked once. */
export function ask<T>(question: string, named: Words = {}, chosen: Words = {}): Promise<T> {
  const words = (of: Words, code: (text: string) => string) =>
    Object.entries(of).map(([key, value]) => `${key}=${code(String(value))}`).join("&");
  if (answers) {
    const name = words(named, (text) => text);
    const answer = answers[question === "index" ? "index" : `${question}?${name}`];
    if (answer !== undefined) return Promise.resolve(answer as T);
    return Promise.reject(new Error("this exported page does not contain it; `ackwright view` on the results does"));
  }
  const query = words({ ...named, ...chosen }, encodeURIComponent);
  const url = `api/${question}?${query}`;
  let answer = kept.get(url);
  if (!answer) {
    answer = fetch(url).then(async (response) => {
      const body = await response.json();
      if (!response.ok) throw new Error(body.error ?? response.statusText);
      return body;
    });
    answer.catch(() => kept.delete(url));
    if (kept.size >= KEPT_MAX) {
      const [first] = kept.keys();
      if (first !== undefined) kept.delete(first);
    }
    kept.set(url, answer);
  }
  return answer as Promise<T>;
}
