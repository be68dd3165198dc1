// What xterm.js shows: reads jobs from standard input, one JSON object per line, and answers each with a line.
//
// The first line is the width table: [[code point, columns], ...], each valid up to the next.
// A job: {data, resizes: [[offset, cols, rows], ...], looks: [{at, from, cols, rows, keyframe}, ...]}, bytes in base64,
// the first resize at offset 0. Each look is answered twice: `whole` after all bytes up to `at` (unless the job says
// whole: false), and `rebuilt` after the keyframe and the bytes between `from` and `at`, with the terminal's replies.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const { Terminal } = createRequire(import.meta.url)("@xterm/headless");

const CODE_POINTS = 0x110000;
const SCROLLBACK = 5000;
// Bits of a cell that xterm.js has no public names for.
const COLOUR_MODE = 0x3000000;
const COLOUR_RGB = 0x3000000;
const COLOUR_UNSET = 0x3ffffff; // what SGR 59 leaves, and white, too
const EXTENDED = 0x10000000;
const UNDERLINE = 0x10000000;
const FLAGS = ["isBold", "isItalic", "isDim", "isBlink", "isInverse", "isInvisible", "isStrikethrough", "isOverline"];

function widthProvider(runs) {
  const widths = new Uint8Array(CODE_POINTS);
  runs.forEach(([start, width], i) => widths.fill(width, start, runs[i + 1]?.[0] ?? CODE_POINTS));
  return {
    version: "engine",
    wcwidth: (code) => widths[code],
    charProperties(code, before) {
      const widthBefore = (before >> 1) & 3;
      const joins = widths[code] === 0 && widthBefore > 0;
      return ((joins ? widthBefore : widths[code]) << 1) | (joins ? 1 : 0);
    },
  };
}

function open(provider, cols, rows) {
  const terminal = new Terminal({ cols, rows, scrollback: SCROLLBACK, allowProposedApi: true, logLevel: "off" });
  terminal.unicode.register(provider);
  terminal.unicode.activeVersion = provider.version;
  return terminal;
}

const write = (terminal, data) => new Promise((done) => terminal.write(data, done));

// Where the last complete character ends: xterm.js 6.0 loses a character whose bytes come in two writes if the first
// of them ends in 0x80, so that no write may end inside one. Nothing is to be seen of half a character.
function characterEnd(data, end) {
  for (let back = 1; back <= 3 && back <= end; back++) {
    const byte = data[end - back];
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? end - back : end;
  }
  return end;
}

function colour(isDefault, isRgb, value) {
  return isDefault ? -1 : isRgb ? 0x1000000 | value : value;
}

function underlineColour(cell) {
  const packed = cell.extended.underlineColor;
  const mode = packed & COLOUR_MODE;
  return mode === 0 || packed === COLOUR_UNSET ? -1 : mode === COLOUR_RGB ? 0x1000000 | (packed & 0xffffff) : packed & 0xff;
}

function style(cell) {
  const attributes = FLAGS.reduce((bits, flag, i) => bits | (cell[flag]() ? 1 << i : 0), 0);
  const extended = cell.bg & EXTENDED;
  // Not underlineStyle, which shows links as dashed.
  const underline = cell.fg & UNDERLINE ? (extended && (cell.extended._ext >> 26) & 7) || 1 : 0;
  return [
    colour(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor()),
    colour(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor()),
    attributes,
    underline,
    underline && extended ? underlineColour(cell) : -1,
  ];
}

function link(terminal, cell) {
  const id = cell.bg & EXTENDED ? cell.extended.urlId : 0;
  return id ? (terminal._core._oscLinkService.getLinkData(id)?.uri ?? null) : null;
}

// A row as [text, [cells, fg, bg, attributes, underline, underline colour, link, ...]].
function describe(terminal, line, cols, cell) {
  let text = "";
  const runs = [];
  let fg, bg, ext, urlId, count = 0;
  for (let x = 0; x < cols; x++) {
    line.getCell(x, cell);
    if (cell.getWidth() !== 0) text += cell.getChars() || " ";
    else if (cell.getChars()) text += `\0${cell.getChars()}`;
    const looks = cell.bg & EXTENDED ? cell.extended : null;
    if (count && cell.fg === fg && cell.bg === bg && looks?._ext === ext && looks?.urlId === urlId) {
      runs[runs.length - 7] = ++count;
      continue;
    }
    [fg, bg, ext, urlId, count] = [cell.fg, cell.bg, looks?._ext, looks?.urlId, 1];
    runs.push(1, ...style(cell), link(terminal, cell));
  }
  return [text, runs];
}

function look(terminal, table) {
  const buffer = terminal.buffer.active;
  const cell = buffer.getNullCell();
  const rows = [];
  let wrapped = "";
  for (let y = 0; y < terminal.rows; y++) {
    const line = buffer.getLine(buffer.baseY + y);
    wrapped += line.isWrapped ? "1" : "0";
    const row = JSON.stringify(describe(terminal, line, terminal.cols, cell));
    if (!table.has(row)) table.set(row, table.size);
    rows.push(table.get(row));
  }
  return {
    rows,
    wrapped,
    cols: terminal.cols,
    cursor: [Math.min(buffer.cursorX, terminal.cols - 1), buffer.cursorY, !terminal._core.coreService.isCursorHidden],
    alternate: buffer.type === "alternate",
    history: buffer.baseY,
  };
}

async function feedWhole(terminal, data, position, at, resizes) {
  while (resizes.length && resizes[0][0] <= at) {
    const [offset, cols, rows] = resizes.shift();
    await write(terminal, data.subarray(position, offset));
    terminal.resize(cols, rows);
    position = offset;
  }
  const end = Math.max(position, characterEnd(data, at));
  await write(terminal, data.subarray(position, end));
  return end;
}

async function rebuild(provider, data, { at, from, cols, rows, keyframe }, table) {
  const terminal = open(provider, cols, rows);
  let replies = "";
  terminal.onData((reply) => (replies += reply));
  await write(terminal, Buffer.concat([Buffer.from(keyframe, "base64"), data.subarray(from, at)]));
  const rebuilt = look(terminal, table);
  terminal.dispose();
  return { rebuilt, replies };
}

async function judge(provider, job) {
  const table = new Map();
  const data = Buffer.from(job.data, "base64");
  const [[, cols, rows], ...resizes] = job.resizes;
  const terminal = open(provider, cols, rows);
  let position = 0;
  const looks = [];
  for (const instant of job.looks) {
    const answer = await rebuild(provider, data, instant, table);
    if (job.whole) {
      position = await feedWhole(terminal, data, position, instant.at, resizes);
      answer.whole = look(terminal, table);
    }
    looks.push(answer);
  }
  terminal.dispose();
  return { rows: [...table.keys()].map((row) => JSON.parse(row)), looks };
}

let provider = null;
for await (const line of createInterface({ input: process.stdin })) {
  if (provider === null) provider = widthProvider(JSON.parse(line));
  else process.stdout.write(JSON.stringify(await judge(provider, JSON.parse(line))) + "\n");
}
