"use strict";

// Plays the recording that this page carries. It is rows, each once, and frames that say which row is where;
// all of it is data: text goes into the page as text, styles are classes that the page brought along.

const KEYFRAME_EVERY = 64;
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32];
const PAUSE_MS = 2000; // a longer one is shortened to this
const SHAPES = ["", "block", "bar", "underline"];
const KEYS = [
  ["space", "play, pause"], ["← →", "5 seconds"], ["shift ← →", "a minute"], [". ,", "next, previous change"],
  ["[ ]", "previous, next mark"], ["0 … 9", "tenths of it"], ["home end", "start, end"], ["< >", "slower, faster"],
  ["s", "shorten pauses, or not"], ["t", "dark, light"], ["f", "full screen"], ["?", "this page"],
];
const LINK = /^(?:https?:\/\/|mailto:)/i;

const $ = (selector) => document.querySelector(selector);
const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

async function unpack(id) {
  const text = atob($(`#${id}`).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// The recording: which rows every frame shows. A frame is [milliseconds since the one before, changed rows as
// y, row, y, row, …, cursor, size, one more than the style of the screen]; 0 or nothing where it is as before.
class Film {
  constructor(about, rows, frames) {
    Object.assign(this, about);
    this.rows = rows;
    this.frames = frames;
    this.times = new Float64Array(frames.length);
    this.keyframes = [];
    let time = 0, state = { size: [0, 0], ids: [], cursor: [0, 0, 0], style: 0 };
    frames.forEach((frame, index) => {
      this.times[index] = time += frame[0];
      state = this.apply(state, frame);
      if (index % KEYFRAME_EVERY === 0) this.keyframes.push({ ...state, ids: state.ids.slice() });
    });
  }

  apply(state, [, changes, cursor, size, style]) {
    const next = { ...state };
    if (size) next.size = size, next.ids = Array.from({ length: size[1] }, (_, y) => state.ids[y] ?? 0);
    for (let i = 0; i < (changes || []).length; i += 2) next.ids[changes[i]] = changes[i + 1];
    if (cursor) next.cursor = cursor;
    if (style) next.style = style - 1;
    return next;
  }

  // The last frame not after a time.
  index(time) {
    let low = 0, high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  state(index) {
    const first = Math.floor(index / KEYFRAME_EVERY);
    const keyframe = this.keyframes[first];
    let state = { ...keyframe, ids: keyframe.ids.slice() };
    for (let i = first * KEYFRAME_EVERY + 1; i <= index; i++) state = this.apply(state, this.frames[i]);
    return state;
  }

  wall(time) {
    const known = this.walls.filter(([at]) => at <= time).pop() ?? this.walls[0];
    return known && new Date(known[1] + time - known[0]);
  }
}

// Draws a state; only rows that differ from what is there.
class Screen {
  constructor(film, root) {
    this.film = film;
    this.root = root;
    this.rows = [];
    this.shown = [];
    this.cursor = element("div", "cursor");
    this.ratio = this.measure();
  }

  // How wide a character is, as a share of the font's size.
  measure() {
    const probe = element("span", "", "0".repeat(100));
    probe.style.fontSize = "100px";
    this.root.append(probe);
    const width = probe.getBoundingClientRect().width / 10000;
    probe.remove();
    return width || 0.6;
  }

  draw(state) {
    if (state.size[0] !== this.cols || state.size[1] !== this.rows.length) this.lay(state.size);
    state.ids.forEach((id, y) => {
      if (this.shown[y] === id) return;
      this.rows[y].replaceChildren(...this.film.rows[id].map((bit) => this.bit(bit)));
      this.shown[y] = id;
    });
    const [x, y, shape] = state.cursor;
    this.cursor.className = `cursor ${SHAPES[shape]}`;
    this.cursor.hidden = !shape;
    this.cursor.style.left = `${x}ch`;
    this.cursor.style.top = `calc(${y} * 1lh)`;
    $(".frame").className = `frame s${state.style}`;
  }

  lay([cols, rows]) {
    this.cols = cols;
    this.rows = Array.from({ length: rows }, () => element("div", "row"));
    this.shown = [];
    this.root.replaceChildren(...this.rows, this.cursor);
    this.fit();
  }

  bit(bit) {
    if (typeof bit === "string") return document.createTextNode(bit);
    const [text, style, cells, link] = bit;
    const uri = link === undefined ? undefined : this.film.links[link];
    const piece = element(uri && LINK.test(uri) ? "a" : "span", `s${style} w${cells || 0}`, text);
    if (piece.tagName === "A") Object.assign(piece, { href: uri, target: "_blank", rel: "noopener noreferrer", title: uri });
    return piece;
  }

  // As large as the window has room for.
  fit() {
    const room = $("main"), around = getComputedStyle(room), frame = getComputedStyle($(".frame"));
    const space = (style, ...sides) => sides.reduce((sum, side) => sum + parseFloat(style[`padding${side}`]), 0);
    const wide = room.clientWidth - space(around, "Left", "Right") - space(frame, "Left", "Right");
    const high = room.clientHeight - space(around, "Top", "Bottom") - space(frame, "Top", "Bottom");
    const byWidth = wide / (this.cols * this.ratio), byHeight = high / (this.rows.length * 1.16);
    // On a phone held upright the width is what counts; a little scrolling is better than no reading.
    const size = Math.max(4, Math.min(20, byWidth, Math.max(byHeight, 8)));
    this.root.style.fontSize = `${Math.floor(size * 8) / 8}px`;
    this.root.style.lineHeight = `${Math.max(5, Math.floor(size * 1.16))}px`;
    this.root.style.width = `${this.cols}ch`;
  }
}

// The line of time: activity, marks, and where we are.
class Bar {
  constructor(film, seek) {
    this.film = film;
    this.input = $(".bar input");
    this.canvas = $(".bar canvas");
    this.tip = $(".tip");
    this.input.max = film.duration;
    this.input.addEventListener("input", () => seek(Number(this.input.value)));
    $(".bar").addEventListener("pointermove", (event) => this.point(event));
    $(".bar").addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  draw(time) {
    this.input.value = time;
    this.input.ariaValueText = clock(time);
    const scale = devicePixelRatio, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name);
    const x = (at) => (width - 2) * Math.min(1, at / Math.max(1, this.film.duration)) + 1;
    pen.scale(scale, scale);
    const base = height - 10, head = x(time);
    this.activity(Math.floor(width / 3)).forEach((share, part) => {
      pen.fillStyle = part * 3 < head ? colour("--accent") : colour("--quiet");
      pen.globalAlpha = part * 3 < head ? 0.9 : 0.5;
      pen.fillRect(part * 3, base - share * (height - 20), 2, share * (height - 20) + 2);
    });
    pen.globalAlpha = 1;
    pen.fillStyle = colour("--mark");
    for (const [at] of this.film.marks) {
      pen.beginPath();
      pen.moveTo(x(at), base + 3), pen.lineTo(x(at) + 4, base + 7), pen.lineTo(x(at), base + 11), pen.lineTo(x(at) - 4, base + 7);
      pen.fill();
    }
    pen.fillStyle = colour("--text");
    pen.fillRect(head - 1, 2, 2, height - 4);
  }

  // How much changed in each of so many parts, 0 to 1.
  activity(parts) {
    if (this.parts?.length === parts) return this.parts;
    const counts = new Array(Math.max(1, parts)).fill(0);
    this.film.frames.forEach((frame, index) => {
      const part = Math.floor((this.film.times[index] / Math.max(1, this.film.duration)) * parts);
      counts[Math.min(counts.length - 1, part)] += index && 1 + (frame[1] || []).length;
    });
    const most = Math.max(1, ...counts);
    return (this.parts = counts.map((count) => Math.sqrt(count / most)));
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const time = share * this.film.duration, near = (this.film.duration * 6) / box.width;
    const mark = this.film.marks.find(([at]) => Math.abs(at - time) <= near);
    this.tip.textContent = mark ? `${clock(mark[0])} · ${mark[1]}` : clock(time);
    this.tip.style.left = `${share * 100}%`;
    this.tip.hidden = false;
  }
}

class Player {
  constructor(film) {
    this.film = film;
    this.screen = new Screen(film, $(".screen"));
    this.bar = new Bar(film, (time) => this.seek(time));
    this.time = 0;
    this.playing = false;
    this.speed = 1;
    this.shorten = true;
    $("h1").textContent = film.title;
    $(".position span").textContent = `/ ${clock(film.duration)}`;
    for (const name of ["markBefore", "markAfter"]) $(`[data-do=${name}]`).hidden = !film.marks.length;
    for (const [key, meaning] of KEYS) $("dl").append(element("dt", "", key), element("dd", "", meaning));
    $(".controls").addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.key(event));
    $("dialog").addEventListener("click", () => $("dialog").close());
    addEventListener("resize", () => { this.screen.fit(); this.draw(); });
    addEventListener("hashchange", () => this.followHash());
    this.followHash();
  }

  followHash() {
    const match = /^#t=(\d+(?:\.\d+)?)$/.exec(location.hash);
    this.seek(match ? Number(match[1]) * 1000 : 0);
  }

  draw() {
    const index = this.film.index(this.time);
    if (index !== this.index) this.screen.draw(this.film.state((this.index = index)));
    this.bar.draw(this.time);
    $(".position b").textContent = clock(this.time);
    const wall = this.film.wall(this.time);
    $(".wall").textContent = wall ? `${wall.toLocaleDateString()} ${wall.toLocaleTimeString()}` : "";
  }

  seek(time) {
    this.time = Math.min(this.film.duration, Math.max(0, time));
    this.draw();
  }

  toggle() {
    if (!this.playing && this.time >= this.film.duration) this.time = 0;
    this.playing = !this.playing;
    const path = this.playing ? "M6 4h4v16H6zm8 0h4v16h-4z" : "M7 4v16l13-8z";
    const button = $("[data-do=toggle]");
    button.ariaLabel = this.playing ? "pause" : "play";
    button.querySelector("path").setAttribute("d", path);
    if (this.playing) {
      this.ticked = performance.now();
      requestAnimationFrame((now) => this.tick(now));
    }
  }

  tick(now) {
    if (!this.playing) return;
    let time = this.time + Math.max(0, now - this.ticked) * this.speed;
    this.ticked = now;
    const next = this.film.times[this.film.index(this.time) + 1] ?? this.film.duration;
    const stood = this.time - this.film.times[this.film.index(this.time)];
    if (this.shorten && next > time && stood >= PAUSE_MS) time = next;
    this.seek(time);
    if (this.time >= this.film.duration) this.toggle();
    else requestAnimationFrame((later) => this.tick(later));
  }

  step(by) {
    if (this.playing) this.toggle();
    const index = this.film.index(this.time);
    // From between two changes, back is to the one that made what is shown.
    const target = by < 0 && this.time > this.film.times[index] ? index : index + by;
    if (target >= 0 && target < this.film.times.length) this.seek(this.film.times[target]);
  }

  mark(by) {
    const times = this.film.marks.map(([at]) => at);
    const found = by > 0 ? times.find((at) => at > this.time) : times.filter((at) => at < this.time).pop();
    if (found !== undefined) this.seek(found);
  }

  setSpeed(speed) {
    this.speed = speed;
    $("[data-do=faster]").textContent = `${speed}x`;
  }

  changeSpeed(by) {
    this.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(this.speed) + by))]);
  }

  theme() {
    document.documentElement.classList.toggle("light");
    this.draw();
  }

  pauses() {
    this.shorten = !this.shorten;
    $("[data-do=pauses]").ariaPressed = this.shorten;
  }

  help() {
    $("dialog").open ? $("dialog").close() : $("dialog").showModal();
  }

  click(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (event.detail) button.blur(); // by mouse or finger: space shall play, not press it again
    switch (button.dataset.do) {
      case "toggle": return this.toggle();
      case "back": return this.seek(this.time - 5000);
      case "forward": return this.seek(this.time + 5000);
      case "markBefore": return this.mark(-1);
      case "markAfter": return this.mark(1);
      case "pauses": return this.pauses();
      case "faster": return this.setSpeed(SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length]);
      case "theme": return this.theme();
      case "help": return this.help();
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("button, a") && (event.key === " " || event.key === "Enter")) return;
    const far = event.shiftKey ? 60000 : 5000;
    const actions = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.seek(this.time - far),
      ArrowRight: () => this.seek(this.time + far),
      ".": () => this.step(1),
      ",": () => this.step(-1),
      "[": () => this.mark(-1),
      "]": () => this.mark(1),
      "<": () => this.changeSpeed(-1),
      ">": () => this.changeSpeed(1),
      Home: () => this.seek(0),
      End: () => this.seek(this.film.duration),
      s: () => this.pauses(),
      t: () => this.theme(),
      f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()),
      "?": () => this.help(),
    };
    const digit = /^[0-9]$/.test(event.key) ? () => this.seek((this.film.duration * Number(event.key)) / 10) : undefined;
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : digit;
    if (!action) return;
    event.preventDefault();
    action();
  }
}

function clock(ms) {
  const tenths = Math.floor(ms / 100), seconds = Math.floor(tenths / 10), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
  return `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds % 60)}.${tenths % 10}`;
}

async function main() {
  if (matchMedia("(prefers-color-scheme: light)").matches) document.documentElement.classList.add("light");
  const film = new Film(...(await Promise.all(["about", "rows", "frames"].map(unpack))));
  $(".frame").hidden = false;
  new Player(film);
  document.documentElement.dataset.ready = "";
}

main().catch((error) => {
  $("main").replaceChildren(element("p", "trouble", `This recording cannot be shown in this browser: ${error}`));
});
