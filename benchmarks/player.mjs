// Seek in a recording with asciinema-player in headless Chromium: the task as JSON on stdin, findings on stdout.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../tests/js/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];

// Runs in the page. The player draws in the next animation frame, so what it drew is there when the one after begins.
async function play({ source, seconds }) {
  const drawn = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  const element = document.getElementById("player");
  const opened = performance.now();
  const player = AsciinemaPlayer.create(source, element, { preload: true, controls: false, fit: "none" });
  await player.seek(0);
  await drawn();
  const found = { open_ms: performance.now() - opened, kept_ms: [], drawn_ms: [], texts: [] };
  for (const second of seconds) {
    const began = performance.now();
    await player.seek(second);
    found.kept_ms.push(performance.now() - began);
    await drawn();
    found.drawn_ms.push(performance.now() - began);
    found.texts.push([...element.querySelectorAll(".ap-line")].map((line) => line.textContent).join("\n"));
  }
  return found;
}

const { executablePath, address, ...task } = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({ executablePath, args: FLAGS });
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
await page.goto(address);
const found = await page.evaluate(play, task);
await browser.close();
process.stdout.write(JSON.stringify(found));
