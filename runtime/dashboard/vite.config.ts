import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative addresses hold behind a proxy that serves Ferry under a prefix.
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/ferry_runtime/api/dashboard/bundle",
    emptyOutDir: true,
    // The page's Content-Security-Policy allows no inline script, and browsers of today need no polyfill.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    target: "es2022",
    chunkSizeWarningLimit: 1_000, // a test holds what counts: 300 kB gzipped
  },
  server: { proxy: { "^/(dashboard/(data|load)|v1|cache)": "http://127.0.0.1:8000" } },
});
