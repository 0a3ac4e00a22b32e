// Colours of lines, and of how much a link is used. Chosen to be told apart with colour-blind eyes too
// (after Okabe and Ito), with three-to-one contrast to the background in both themes.

const LIGHT = ["#0066b3", "#c24a00", "#00795a", "#a8478b", "#8a6d00", "#3b3b98", "#7a4b2a", "#5a6570"];
const DARK = ["#5cb8ff", "#ff9a4d", "#3fd6a6", "#f08fd0", "#e6c84b", "#a5a5ff", "#d9a27c", "#a9b6c2"];

export function lineColour(index: number, dark: boolean): string {
  const colours = dark ? DARK : LIGHT;
  return colours[index % colours.length]!;
}

type Colour = [number, number, number];
const USE_LIGHT: Colour[] = [[201, 208, 214], [86, 160, 211], [232, 163, 23], [200, 30, 30]];
const USE_DARK: Colour[] = [[62, 72, 82], [58, 134, 196], [240, 180, 41], [255, 92, 92]];
const STEPS = [0, 0.4, 0.85, 1];

/** From idle (grey) over half (blue) and nearly full (amber) to full (red). */
export function useColour(share: number, dark: boolean): string {
  const colours = dark ? USE_DARK : USE_LIGHT;
  const at = Math.min(Math.max(share, 0), 1);
  let step = 0;
  while (step < STEPS.length - 2 && at > STEPS[step + 1]!) step++;
  const part = (at - STEPS[step]!) / (STEPS[step + 1]! - STEPS[step]!);
  const mix = colours[step]!.map((from, index) => Math.round(from + (colours[step + 1]![index]! - from) * part));
  return `rgb(${mix.join(" ")})`;
}

export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
