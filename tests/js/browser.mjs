// A headless Chromium that a test drives: one JSON command per line in, one JSON answer per line out.
// Every page reports what it did that a recording must never do.
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { join, normalize } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const DEADLINE_MS = 90000;  // a busy machine is no failure
const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", json: "application/json", svg: "image/svg+xml" };

// Runs in the page before anything of it.
function spy() {
  const note = (what) => window.__did.push(what);
  window.__did = [];
  document.addEventListener("securitypolicyviolation", (event) => note(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  const watch = (owner, name) => {
    if (owner && owner[name]) owner[name] = () => (note(name), Promise.resolve());
  };
  for (const name of ["open", "alert", "confirm", "prompt", "print"]) watch(window, name);
  for (const name of ["readText", "writeText", "read", "write"]) watch(navigator.clipboard, name);
  watch(document, "execCommand");
  watch(document, "write");
  watch(window.Notification, "requestPermission");
  window.Notification = class { constructor() { note("Notification"); } };
  navigator.sendBeacon = () => note("sendBeacon");
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS });
const pages = new Map();

async function open({ url, folder, sites = [], width = 1280, height = 800, scheme = "dark", touch = false }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, hasTouch: touch, acceptDownloads: true });
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  const did = [], requests = [];
  page.on("dialog", (dialog) => { did.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("popup", (popup) => did.push(`popup: ${popup.url()}`));
  page.on("download", (download) => did.push(`download: ${download.url()}`));
  page.on("pageerror", (error) => did.push(`error: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error") did.push(`console: ${message.text()}`); });
  page.on("request", (request) => requests.push(request.url()));
  await page.addInitScript(spy);
  // Addresses of http://folder.test/ are files of one folder, those of sites are their own; nothing else is ever fetched.
  await page.route(/^https?:/, async (route) => {
    const path = new URL(route.request().url()).pathname;
    if (sites.some((site) => new URL(site).port === new URL(route.request().url()).port)) return route.continue();
    try {
      if (!folder || !route.request().url().startsWith("http://folder.test/")) throw new Error("no such site");
      const body = await readFile(join(folder, normalize(path)));
      await route.fulfill({ body, contentType: TYPES[path.split(".").pop()] ?? "application/octet-stream" });
    } catch {
      await route.abort();
    }
  });
  await page.goto(url);
  const id = pages.size + 1;
  pages.set(id, { page, context, did, requests });
  return id;
}

// A place in an element, by its share of the width; by default the middle.
async function place(page, selector, x) {
  if (x === undefined) return {};
  const box = await pages.get(page).page.locator(selector).first().boundingBox();
  return { position: { x: box.width * x, y: box.height / 2 } };
}

const commands = {
  open,
  visit: ({ page, url }) => pages.get(page).page.goto(url).then(() => true),
  evaluate: ({ page, script }) => pages.get(page).page.evaluate(script),
  wait: async ({ page, script }) => {
    // Not waitForFunction: it needs eval, which the pages under test forbid.
    for (const until = Date.now() + DEADLINE_MS; Date.now() < until; await new Promise((go) => setTimeout(go, 20))) {
      if (await pages.get(page).page.evaluate(script)) return true;
    }
    throw new Error(`it did not happen in time: ${script}`);
  },
  press: ({ page, key }) => pages.get(page).page.keyboard.press(key),
  click: async ({ page, selector, x }) => pages.get(page).page.click(selector, await place(page, selector, x)),
  hover: async ({ page, selector, x }) => pages.get(page).page.hover(selector, await place(page, selector, x)),
  tap: ({ page, selector }) => pages.get(page).page.tap(selector),
  screenshot: ({ page, path }) => pages.get(page).page.screenshot({ path }).then(() => path),
  report: async ({ page: id }) => {
    const { page, did, requests } = pages.get(id);
    return { did: [...did, ...(await page.evaluate(() => window.__did))], requests };
  },
  close: async ({ page }) => { await pages.get(page).context.close(); },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await commands[command](options)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
