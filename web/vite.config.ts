// One script and one style sheet, with names that never change: the crate `ackwright-view` holds both.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "../crates/view/assets",
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
