// A real browser, the program that serves, and readers of its files that are not ours.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { chromium } from "playwright-core";

export const PROGRAM = process.env.ACKWRIGHT;
export const ROOT = new URL("../../", import.meta.url).pathname;
export const PLACE = mkdtempSync(join(tmpdir(), "ackwright-view-"));
const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Runs `ackwright` and gives what it prints. */
export function ackwright(...words) {
  return execFileSync(PROGRAM, words, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** Results of an experiment, with all that the viewer shows. */
export function results(experiment, name, ...settings) {
  const out = join(PLACE, name);
  const words = settings.flatMap((it) => ["--set", it]);
  ackwright("run", `experiments/${experiment}.toml`, "--runs", "1", ...words, "--out", out, "--view");
  return out;
}

export function json_of(text) {
  return JSON.parse(text);
}

export function json(path) {
  return json_of(readFileSync(path, "utf8"));
}

/** Runs a script of a shell in a network of its own, with the program and a file as its words; nothing where that cannot be had. */
export function live(script, file) {
  const words = ["--map-root-user", "--net"];
  const can = spawnSync("unshare", [...words, "sh", "-c", "ip tuntap add vwtest mode tap"], { stdio: "ignore" });
  if (can.status !== 0) return null;
  return spawn("unshare", [...words, "--kill-child", "--fork", "--pid", "sh", "-c", script, PROGRAM, file], { stdio: "ignore" });
}

/** The rows of a Parquet file, numbers as numbers. */
export async function rows(path) {
  const all = await parquetReadObjects({ file: await asyncBufferFromFile(path) });
  return all.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, typeof value === "bigint" ? Number(value) : value])));
}

/** The last row at or before a time. */
export function rowAt(all, seconds) {
  return all.findLast((row) => row.time_ns <= seconds * 1e9 + 0.5);
}

const servers = [];

/** Serves something; the address to open. */
export function serve(what, cwd = ROOT) {
  const server = spawn(PROGRAM, ["view", what, "--no-open"], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  servers.push(server);
  return new Promise((known, failed) => {
    let said = "";
    server.stdout.on("data", (data) => {
      said += data;
      const found = /http:\S+/.exec(said);
      if (found) known(found[0]);
    });
    server.on("exit", (code) => failed(new Error(`ackwright view ended with ${code}`)));
  });
}

/** A window of the browser, and everything that went wrong in it; with other settings of the environment and further flags. */
export async function open(settings = {}, flags = []) {
  const profile = mkdtempSync(join(PLACE, "chromium-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM,
    args: [...FLAGS, ...flags],
    env: { ...process.env, ...settings },
    viewport: { width: 1280, height: 900 },
    colorScheme: "light",
  });
  const page = browser.pages()[0] ?? (await browser.newPage());
  const trouble = [];
  const asked = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") trouble.push(message.text());
  });
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("request", (request) => asked.push(request.url()));
  return { browser, page, trouble, asked };
}

/** Goes to a view and waits until it stands. */
export async function show(page, url, place) {
  await page.goto("about:blank");
  await page.goto(`${url}#${new URLSearchParams(place)}`);
  await page.waitForSelector("main .card, main .chart", { timeout: 20_000 });
  await still(page);
}

/** Waits until nothing changes any more. */
export async function still(page) {
  await page.waitForFunction(
    () => {
      const text = document.querySelector("main")?.innerText ?? "";
      const same = text === window.lastText && !/Loading …/.test(text);
      window.lastText = text;
      return same;
    },
    null,
    { polling: 150, timeout: 20_000 },
  );
}

/** Faults of accessibility that are serious. */
export async function faults(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const found = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return found.violations
      .filter((it) => it.impact === "serious" || it.impact === "critical")
      .map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  });
}

const PREFIXES = { G: 1e9, M: 1e6, k: 1e3 };

/** The number of a text like `18.53 Mbit/s`, in the unit without its prefix. */
export function number(text) {
  const found = /^([−-]?[\d\u202f.e+-]+)(?:\s*([GMk])?(?:bit\/s|B)\b)?/.exec(text.trim());
  if (!found) return Number.NaN;
  return Number(found[1].replaceAll("\u202f", "").replace("−", "-")) * (PREFIXES[found[2]] ?? 1);
}

/** Equal to the four figures that are shown. */
export function equals(shown, wanted) {
  return Math.abs(shown - wanted) <= Math.max(Math.abs(wanted) * 6e-4, 1e-9);
}

export function end() {
  for (const server of servers) {
    server.removeAllListeners("exit");
    server.kill("SIGTERM");
  }
  rmSync(PLACE, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
