// One script and one style sheet, with names that never change: the crate `ackwright-view` holds both. What others have
// written stands with its licence at the head of the script, and so in each exported page.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const OTHERS = ["preact", "uplot"];

function notices(): Plugin {
  const of = (name: string) => {
    const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`;
  };
  return {
    name: "notices",
    generateBundle(_, bundle) {
      const head = `/*! This script contains:\n\n${OTHERS.map(of).join("\n\n")}\n*/\n`;
      for (const file of Object.values(bundle)) if (file.type === "chunk") file.code = head + file.code;
    },
  };
}

export default defineConfig({
  plugins: [notices()],
  build: {
    outDir: process.env.VIEWER_OUT ?? "../crates/view/assets",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rolldownOptions: {
      input: "src/main.tsx",
      output: {
        format: "iife",
        entryFileNames: "viewer.js",
        assetFileNames: "viewer.[ext]",
      },
    },
  },
});
