// Type into terminals over WebSockets in headless Chromium: the task as JSON on stdin, milliseconds per key on stdout.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../tests/js/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
// With these a page's clock is exact to 5 µs, without to 100.
const ISOLATED = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };

// Runs in the page.
async function type({ ways, keys, samples, block, pauseMs, giveUpMs }) {
  const sleep = (ms) => new Promise((go) => setTimeout(go, ms));
  const bytesOf = (data) => new Uint8Array(data);

  // How each is spoken to: open returns when it can be typed into; wrap makes a message of a key; shown are the bytes
  // of a message that belong on the screen.
  const protocols = {
    scrubjay: {
      async open(socket, heard) {
        socket.send(JSON.stringify({ type: "take" }));
        while (true) {
          const data = await heard();
          if (typeof data === "string" && JSON.parse(data).type === "keyboard" && JSON.parse(data).mine) return;
          if (typeof data === "string" && JSON.parse(data).type === "refusal") throw new Error(data);
        }
      },
      wrap: (key) => Uint8Array.of(key),
      shown: (data) => (typeof data === "string" ? [] : bytesOf(data).subarray(24)),
    },
    ttyd: {
      subprotocols: ["tty"],
      async open(socket, heard) {
        socket.send(new TextEncoder().encode(JSON.stringify({ AuthToken: "", columns: 120, rows: 40 })));
        await heard();
      },
      wrap: (key) => Uint8Array.of(48, key), // "0": input
      shown: (data) => (bytesOf(data)[0] === 48 ? bytesOf(data).subarray(1) : []), // "0": output
    },
    bare: {
      async open() {},
      wrap: (key) => Uint8Array.of(key),
      shown: bytesOf,
    },
  };

  class Way {
    constructor({ url, protocol }) {
      this.protocol = protocols[protocol];
      this.socket = new WebSocket(url, this.protocol.subprotocols ?? []);
      this.socket.binaryType = "arraybuffer";
      this.early = [];
      this.listener = (data) => this.early.push(data);
      this.opened = new Promise((go) => { this.socket.onopen = go; });
      this.failed = new Promise((_, fail) => {
        this.socket.onclose = (event) => fail(new Error(`${url} was closed: ${event.code} ${event.reason}`));
      });
      this.failed.catch(() => {});
      this.socket.onmessage = (event) => this.listener(event.data);
    }
    within(promise) {
      const late = sleep(giveUpMs).then(() => { throw new Error(`no echo in ${giveUpMs} ms by ${this.socket.url}`); });
      return Promise.race([promise, this.failed, late]);
    }
    async open() {
      const heard = async () => {
        const next = new Promise((go) => { this.listener = (data) => go(this.early.push(data)); });
        if (!this.early.length) await this.within(next);
        return this.early.shift();
      };
      await this.within(this.opened);
      await this.protocol.open(this.socket, heard);
    }
    echoMs(key) {
      const { wrap, shown } = this.protocol;
      return this.within(new Promise((go) => {
        this.listener = (data) => {
          const now = performance.now();
          if (shown(data).includes(key)) go(now - began);
        };
        const began = performance.now();
        this.socket.send(wrap(key));
      }));
    }
    async typeBlock() {
      const taken = [];
      for (let number = 0; number < block; number++) {
        taken.push(await this.echoMs(keys[number % keys.length]));
        await sleep(pauseMs);
      }
      return taken;
    }
  }

  const opened = Object.entries(ways).map(([name, way]) => [name, new Way(way)]);
  for (const [, way] of opened) await way.open();
  await sleep(1000); // nothing tells from outside that a terminal has been set up
  const found = Object.fromEntries(opened.map(([name]) => [name, []]));
  for (const [, way] of opened) await way.typeBlock(); // not counted: everything is done for the first time
  for (let round = 0; round * block < samples; round++) {
    for (const [name, way] of opened) found[name].push(...(await way.typeBlock()));
  }
  return { isolated: crossOriginIsolated, ms: found };
}

const { executablePath, login, address, ...task } = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({ executablePath, args: FLAGS });
try {
  const context = await browser.newContext();
  // A page that comes from no address is not taken for one of this machine.
  await context.grantPermissions(["local-network-access"], { origin: address });
  const page = await context.newPage();
  // A page of the server's origin, so that its cookie and Origin are those of the real page, and with no work of its own.
  await page.route(`${address}/typing`, (route) =>
    route.fulfill({ body: "<!doctype html><title>typing</title>", contentType: "text/html", headers: ISOLATED }));
  await page.goto(login);
  await page.goto(`${address}/typing`);
  process.stdout.write(JSON.stringify(await page.evaluate(type, task)));
} finally {
  await browser.close();
}
