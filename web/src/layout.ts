// Where nodes are drawn: stress majorisation (Gansner, Koren, North 2004) from a beginning that depends on the
// network alone, so that the same network always looks the same. Trees of switches are drawn in tiers.

import type { World } from "./api";

export interface Point {
  x: number;
  y: number;
}

type Neighbours = number[][];

export function layout(world: World): Point[] {
  const index = new Map(world.nodes.map((node, at) => [node.name, at]));
  const near: Neighbours = world.nodes.map(() => []);
  for (const link of world.links) {
    const [a, b] = [index.get(link.ends[0]), index.get(link.ends[1])];
    if (a === undefined || b === undefined || a === b) continue;
    near[a]!.push(b);
    near[b]!.push(a);
  }
  const isHost = world.nodes.map((node) => node.role === "host");
  const tiers = inTiers(near, isHost);
  if (tiers) return rows(near, tiers);
  return world.nodes.length <= 400 ? stress(near) : rows(near, distances(near, isHost.map((host, at) => (host ? at : -1)).filter((at) => at >= 0)));
}

/** Steps to the nearest of these nodes. */
function distances(near: Neighbours, from: number[]): number[] {
  const far = near.map(() => Infinity);
  let front = from;
  for (const at of from) far[at] = 0;
  for (let step = 1; front.length > 0; step++) {
    const next: number[] = [];
    for (const at of front) {
      for (const other of near[at]!) {
        if (far[other] === Infinity) {
          far[other] = step;
          next.push(other);
        }
      }
    }
    front = next;
  }
  return far.map((it) => (it === Infinity ? 0 : it));
}

/** The tier of each node, if this is a fabric: many hosts with one link each, switches above them that only
 *  reach tiers beside their own. */
function inTiers(near: Neighbours, isHost: boolean[]): number[] | null {
  const hosts = isHost.map((host, at) => (host ? at : -1)).filter((at) => at >= 0);
  if (hosts.length < 6 || near.length - hosts.length < 3) return null;
  if (hosts.some((at) => near[at]!.length !== 1)) return null;
  const tier = distances(near, hosts);
  const tall = Math.max(...tier);
  if (tall < 2) return null;
  const beside = near.every((all, at) => all.every((other) => Math.abs(tier[at]! - tier[other]!) === 1));
  return beside ? tier : null;
}

/** Tiers from top to bottom, each in an order with few crossings. */
function rows(near: Neighbours, tier: number[]): Point[] {
  const tall = Math.max(...tier, 1);
  const order: number[][] = Array.from({ length: tall + 1 }, () => []);
  tier.forEach((row, at) => order[row]!.push(at));
  const x = tier.map(() => 0);
  const spread = (row: number[]) => row.forEach((at, place) => (x[at] = (place + 0.5) / row.length));
  order.forEach(spread);
  for (let round = 0; round < 8; round++) {
    for (const row of round % 2 === 0 ? order : [...order].reverse()) {
      const centre = new Map(
        row.map((at) => {
          const others = near[at]!.filter((other) => tier[other] !== tier[at]);
          const mean = others.reduce((sum, other) => sum + x[other]!, 0) / Math.max(others.length, 1);
          return [at, others.length === 0 ? x[at]! : mean];
        }),
      );
      row.sort((a, b) => centre.get(a)! - centre.get(b)! || a - b);
      spread(row);
    }
  }
  return tier.map((row, at) => ({ x: x[at]!, y: 1 - row / tall }));
}

function stress(near: Neighbours): Point[] {
  const count = near.length;
  if (count === 0) return [];
  if (count === 1) return [{ x: 0.5, y: 0.5 }];
  const far = near.map((_, at) => distances(near, [at]));
  // The two nodes farthest from each other are the left and the right end.
  let ends: [number, number] = [0, 0];
  far.forEach((row, a) => row.forEach((it, b) => (it > far[ends[0]]![ends[1]]! ? (ends = [a, b]) : null)));
  const [left, right] = ends;
  const along = near.map((_, node) => (far[left]![node]! - far[right]![node]!) / 2);
  // Who is alone at its place begins in the middle, others above and below: chains stay straight.
  const met = new Map<number, number>();
  const at: Point[] = along.map((x) => {
    const before = met.get(x) ?? 0;
    met.set(x, before + 1);
    return { x, y: before };
  });
  at.forEach((point) => (point.y = (point.y - (met.get(point.x)! - 1) / 2) * 0.6));
  for (let round = 0; round < 250; round++) {
    for (let a = 0; a < count; a++) {
      let [x, y, sum] = [0, 0, 0];
      for (let b = 0; b < count; b++) {
        const wanted = far[a]![b]!;
        if (a === b || wanted === 0) continue;
        const weight = 1 / (wanted * wanted);
        const [dx, dy] = [at[a]!.x - at[b]!.x, at[a]!.y - at[b]!.y];
        const length = Math.hypot(dx, dy) || 1e-6;
        x += weight * (at[b]!.x + (wanted * dx) / length);
        y += weight * (at[b]!.y + (wanted * dy) / length);
        sum += weight;
      }
      if (sum > 0) at[a] = { x: x / sum, y: y / sum };
    }
  }
  return settled(at, left, right);
}

/** The long way lies flat, left to right, within a square of side 1; flat pictures stay flat. */
function settled(at: Point[], left: number, right: number): Point[] {
  const turn = -Math.atan2(at[right]!.y - at[left]!.y, at[right]!.x - at[left]!.x);
  const turned = at.map(({ x, y }) => ({
    x: x * Math.cos(turn) - y * Math.sin(turn),
    y: x * Math.sin(turn) + y * Math.cos(turn),
  }));
  const [xs, ys] = [turned.map((it) => it.x), turned.map((it) => it.y)];
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const middle = (Math.min(...ys) + Math.max(...ys)) / 2;
  const size = Math.max(high - low, Math.max(...ys) - Math.min(...ys), 1e-6);
  return turned.map(({ x, y }) => ({ x: 0.5 + (x - (low + high) / 2) / size, y: 0.5 + (y - middle) / size }));
}
