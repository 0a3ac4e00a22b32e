// The pictures of the documentation are what the viewer shows: taken of the real page, and compared dot by dot, but only where
// they would be drawn alike: by the chromium that took them, with the fonts that they have. `make pictures` takes them anew.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ackwright, end, open, PLACE, ROOT, serve, show, still } from "./browser.mjs";

/** The major version of the chromium that has taken the pictures. */
const CHROMIUM = 156;
/** Text is in the font that plots have, too; symbols and what stands in columns is in DejaVu, if it is there. */
const FONTS = [join(ROOT, "crates/lab/assets"), "/usr/share/fonts/truetype/dejavu"];
/** How many dots of 10,000 may differ: the edges of curves depend on the processor. */
const MAY_DIFFER = 1;
const TAKE = process.env.PICTURES === "take";

const why = reason();
let window_;

before(async () => {
  if (why) return console.log(`SKIPPED: view-test: pictures: ${why}`);
  writeFileSync(join(PLACE, "fonts.conf"), fonts());
  window_ = await open({ FONTCONFIG_FILE: join(PLACE, "fonts.conf") }, ["--font-render-hinting=none", "--force-color-profile=srgb"]);
});

after(async () => {
  await window_?.browser.close();
  end();
});

/** Why pictures cannot be compared here; nothing if they can. */
function reason() {
  const version = execFileSync(process.env.CHROMIUM, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const major = Number(/ (\d+)\./.exec(version)?.[1]);
  if (major !== CHROMIUM) return `they are of chromium ${CHROMIUM}, this is ${major}`;
  return FONTS.every(existsSync) ? "" : `there is no ${FONTS[1]}`;
}

function fonts() {
  // Strongly bound: Roboto is cut to what plots need, and would else count as no font for English.
  const choose = (compare, font) => `<match target="pattern"><test name="family" qual="${compare === "contains" ? "any" : "all"}"
    compare="${compare}"><string>mono</string></test><edit name="family" mode="prepend" binding="strong"><string>${font}</string></edit></match>`;
  const off = ["hinting", "autohint", "embeddedbitmap"].map((it) => `<edit name="${it}" mode="assign"><bool>false</bool></edit>`).join("");
  return `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>${FONTS.map((it) => `<dir>${it}</dir>`).join("")}
    <cachedir>${join(PLACE, "fonts")}</cachedir>${choose("not_contains", "Roboto")}${choose("contains", "DejaVu Sans Mono")}
    <match target="font">${off}<edit name="rgba" mode="assign"><const>none</const></edit></match></fontconfig>`;
}

/** Results in `out/NAME`, which the page shows as where they lie; the address that serves them. */
async function results(experiment, name, ...settings) {
  mkdirSync(join(PLACE, "out"), { recursive: true });
  const words = settings.flatMap((it) => ["--set", it]);
  ackwright("run", `experiments/${experiment}.toml`, "--runs", "1", ...words, "--out", join(PLACE, "out", name), "--view");
  return serve(`out/${name}`, PLACE);
}

/** Takes a picture of the window; it is the one of the documentation, or becomes it. */
async function picture(page, name) {
  await page.evaluate(() => document.fonts.ready);
  await page.mouse.move(0, 0);
  await page.waitForTimeout(300);
  await still(page);
  const taken = await page.screenshot({ animations: "disabled", caret: "hide" });
  const file = join(ROOT, `docs/img/view-${name}.png`);
  if (TAKE) return writeFileSync(file, taken);
  const share = await differs(taken, readFileSync(file));
  if (share > MAY_DIFFER) writeFileSync(join(ROOT, `target/view-${name}.png`), taken);
  assert.ok(share <= MAY_DIFFER, `docs/img/view-${name}.png: ${share.toFixed(1)} of 10,000 dots are others in target/view-${name}.png (make pictures)`);
}

/** How many dots of 10,000 differ, by more than can be seen. */
async function differs(one, other) {
  const blank = await window_.browser.newPage();
  try {
    return await blank.evaluate(async (both) => {
      const dots = async (data) => {
        const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
        const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
        pen.drawImage(image, 0, 0);
        return { size: `${image.width}x${image.height}`, data: pen.getImageData(0, 0, image.width, image.height).data };
      };
      const [a, b] = await Promise.all(both.map(dots));
      if (a.size !== b.size) return 10_000;
      let others = 0;
      for (let at = 0; at < a.data.length; at += 4) {
        if ([0, 1, 2].some((channel) => Math.abs(a.data[at + channel] - b.data[at + channel]) > 16)) others++;
      }
      return (others * 40_000) / a.data.length;
    }, [one, other].map((it) => it.toString("base64")));
  } finally {
    await blank.close();
  }
}

test("the network, a link of which is cut", { skip: why || false }, async () => {
  const { page } = window_;
  await page.setViewportSize({ width: 1180, height: 900 });
  await show(page, await results("leaf-spine", "leaf"), { view: "network", t: "0.075" });
  await picture(page, "network");
});

test("a flow, dark, with a retransmitted packet", { skip: why || false }, async () => {
  const { page } = window_;
  await page.setViewportSize({ width: 1180, height: 900 });
  await page.emulateMedia({ colorScheme: "dark" });
  await show(page, await results("first", "first", "duration=8s", "warmup=1s"), { view: "flow", run: "fq_codel-seed-1" });
  await page.locator(".events button", { hasText: "retransmit" }).first().click();
  await page.locator("canvas.sequence").focus();
  for (let press = 0; press < 5; press++) await page.keyboard.press("+");
  const summary = page.locator("[data-summary]");
  for (let packet = 0; packet < 20; packet++) {
    await page.waitForTimeout(300);
    await still(page);
    if ((await summary.count()) > 0 && /retransmitted/.test(await summary.textContent())) break;
    await page.keyboard.press(packet === 0 ? "p" : "n");
  }
  assert.match(await summary.textContent(), /retransmitted/);
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, "flow");
  await page.emulateMedia({ colorScheme: "light" });
});

test("the ring of next hops, before and after a link went down", { skip: why || false }, async () => {
  const { page } = window_;
  await page.setViewportSize({ width: 1000, height: 660 });
  await show(page, await results("multipath-flap", "flap", "duration=3s", "case=administrator"), { view: "multipath", t: "1.5" });
  await picture(page, "multipath");
});
