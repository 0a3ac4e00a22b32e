// Numbers as people read them.

export function seconds(value: number, places = 3): string {
  return `${value.toFixed(places)} s`;
}

/** As many digits as tell one sample from the next. */
export function timeText(value: number, width: number): string {
  const places = width > 20 ? 2 : width > 1 ? 4 : 6;
  return `${value.toFixed(places)} s`;
}

const PREFIXES: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function metricPrefix(value: number, unit: string): string {
  for (const [size, prefix] of PREFIXES) {
    if (Math.abs(value) >= size) return `${figures(value / size)} ${prefix}${unit}`;
  }
  return `${figures(value)} ${unit}`;
}

/** Four figures, no trailing zeros behind the point. */
export function figures(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en-US").replaceAll(",", "\u202f");
  if (size >= 10_000) return Math.round(value).toLocaleString("en-US").replaceAll(",", "\u202f");
  if (size < 1e-4) return value.toExponential(2);
  const text = value.toPrecision(4);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

export interface Unit {
  /** What stands behind the number. */
  name: string;
  /** What a value of the file is multiplied by. */
  factor: number;
  text(value: number): string;
}

const plain = (name: string, factor = 1): Unit => ({
  name,
  factor,
  text: (value) => `${figures(value * factor)}${name === "" ? "" : ` ${name}`}`,
});

export const UNITS = {
  rate: { name: "Mbit/s", factor: 1e-6, text: (value) => metricPrefix(value, "bit/s") } as Unit,
  bytes: { name: "kB", factor: 1e-3, text: (value) => metricPrefix(value, "B") } as Unit,
  packets: plain("packets"),
  segments: plain("segments"),
  micros: plain("ms", 1e-3),
  share: plain("%", 1e-4),
  count: plain(""),
};
