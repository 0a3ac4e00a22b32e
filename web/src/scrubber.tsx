// Plays time.

import { useEffect, useState } from "preact/hooks";
import { timeText } from "./format";
import { stepKeys } from "./chart";
import { cursor, moveTo, shown, store, useStore, whole } from "./store";

/** Whether time runs, and how many seconds of it a second takes. */
export const playing = store(false);
const SPEEDS = [0.01, 0.1, 0.5, 1, 2, 5, 20];

export function Scrubber() {
  const time = useStore(cursor);
  const [begin, end] = useStore(whole);
  const [from, to] = useStore(shown);
  const runs = useStore(playing);
  const [speed, setSpeed] = useState(1);
  useEffect(() => {
    if (!runs) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const next = cursor.get() + ((now - last) / 1000) * speed;
      last = now;
      moveTo(Math.min(next, end));
      if (next >= end) playing.set(false);
      else frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [runs, speed, end]);
  const toggle = () => {
    if (!runs && cursor.get() >= end) moveTo(begin);
    playing.set(!runs);
  };
  const zoomed = to - from < (end - begin) * 0.999;
  return (
    <footer class="scrubber">
      <button type="button" class="play" aria-label={runs ? "Pause" : "Play"} aria-pressed={runs} onClick={toggle}>
        {runs ? "❚❚" : "▶"}
      </button>
      <input
        type="range"
        aria-label="Time"
        aria-valuetext={timeText(time, end - begin)}
        min={begin}
        max={end}
        step={(end - begin) / 10_000}
        value={time}
        onInput={(event) => moveTo(Number(event.currentTarget.value))}
        onKeyDown={stepKeys}
      />
      <output class="time" data-time={time}>
        {timeText(time, to - from)}
      </output>
      <label>
        <span class="wide">Speed </span>
        <select aria-label="Speed" value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((it) => (
            <option key={it} value={it}>
              {it}×
            </option>
          ))}
        </select>
      </label>
      <button type="button" disabled={!zoomed} onClick={() => shown.set(whole.get())}>
        Whole<span class="wide"> run</span>
      </button>
    </footer>
  );
}
