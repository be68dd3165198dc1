"""What agents print, in any quantity: the same bytes from the same seed, on every machine. Pure but for the writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

COLS, ROWS = 120, 40
SEED = 20260301

_PROSE = (
    "the agent reads every file before it changes one and asks when a test fails that nobody expected to fail "
    "buffer cursor module session window record segment stream parser worker index branch commit merge request "
    "retry queue socket handler schema column table cache token value option result error warning status check"
)
_WORDS = _PROSE.split()
_SYMBOLS = ("def", "class", "return", "import", "self", "await", "async", "for", "if", "not", "None", "raise", "yield")
_WIDE = ("日本語の行", "文字幅", "端末", "완료", "🚀", "✨", "中文")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LEVELS = (("32", "INFO "), ("32", "INFO "), ("32", "INFO "), ("34", "DEBUG"), ("33", "WARN "), ("31", "ERROR"))
_METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
_LINES = 256  # of prose and of code that are in sight or close to it
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # synchronized output: the terminal shows all of it at once
_FRAME_TEXT, _DIM, _ADDED, _REMOVED = "38;2;215;119;87", "38;2;136;136;136", "48;2;34;92;43", "48;2;122;41;54"


def log_lines(rng: Random) -> Iterator[str]:
    """Endless coloured log lines, as a build or a server prints them."""
    at_ms = 0
    phrases = [" ".join(rng.choices(_WORDS, k=rng.randint(3, 9))) for _ in range(500)]
    while True:
        at_ms += rng.getrandbits(8)
        colour, level = _LEVELS[rng.getrandbits(8) % len(_LEVELS)]
        yield (
            f"\x1b[90m2026-03-01T{at_ms // 3600000 % 24:02d}:{at_ms // 60000 % 60:02d}:{at_ms // 1000 % 60:02d}."
            f"{at_ms % 1000:03d}Z\x1b[0m \x1b[{colour}m{level}\x1b[0m \x1b[36mworker-{rng.getrandbits(3)}\x1b[0m "
            f"request={rng.getrandbits(64):016x} {_METHODS[rng.getrandbits(8) % len(_METHODS)]} "
            f"/api/v1/items/{rng.getrandbits(17)} \x1b[1m{200 + rng.getrandbits(2) * 100}\x1b[0m "
            f"{rng.getrandbits(12) / 10:.1f}ms {phrases[rng.getrandbits(16) % 500]}\n"
        )


def screen_frames(rng: Random) -> Iterator[str]:
    """Endless screen updates, as an agent with a full-screen interface draws them."""
    screen = _Screen(rng)
    kinds = (
        [screen.tick] * 10
        + [screen.stream_text] * 6
        + [screen.draw_panel] * 3
        + [screen.draw_diff] * 2
        + [screen.redraw]
    )
    while True:
        screen.go_on()
        yield _BEGIN + kinds[rng.getrandbits(10) % len(kinds)]() + _END


def noise(rng: Random) -> Iterator[bytes]:
    """Endless bytes of every value: invalid UTF-8, NULs, half escape sequences."""
    while True:
        yield rng.randbytes(4096) + b"\x00" * 64 + b"\xc3\x28 \xff\xfe \xed\xa0\x80 \xf0\x9f\x98\n" + b"\x1b[38;2"


class _Screen:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._turn = 0
        self._row = 3
        self._prose = [self._sentence() for _ in range(_LINES)]
        self._code = [self._statement() for _ in range(_LINES)]

    def go_on(self) -> None:
        """Something new is said: what is drawn again and again is the end of the conversation, not all of it."""
        self._prose[self._rng.getrandbits(16) % _LINES] = self._sentence()
        self._code[self._rng.getrandbits(16) % _LINES] = self._statement()

    def tick(self) -> str:
        """The spinner turns and the counters beside it go up."""
        self._turn += 1
        spinner = _SPINNER[self._turn % len(_SPINNER)]
        return (
            f"\x1b[s\x1b[{ROWS - 3};1H\x1b[{_FRAME_TEXT}m{spinner}\x1b[39m Working… \x1b[{_DIM}m({self._turn // 8}s · "
            f"↑ {self._turn * 37 % 90000 / 1000:.1f}k tokens · esc to interrupt)\x1b[39m\x1b[K\x1b[u"
        )

    def stream_text(self) -> str:
        """A few more words of an answer."""
        self._row = self._row + 1 if self._row < ROWS - 6 else 3
        column = 3 + self._rng.getrandbits(5)
        words = self._prose[self._rng.getrandbits(16) % _LINES][: 20 + self._rng.getrandbits(6)]
        return f"\x1b[{self._row};{column}H{words}\x1b[K\r\x1b[1B" + self.tick()

    def draw_panel(self) -> str:
        """A framed box with wrapped text, drawn line by line."""
        rng, top, height = self._rng, 2 + self._rng.getrandbits(4), 6 + self._rng.getrandbits(3)
        rule = "─" * (COLS - 2)
        lines = [f"\x1b[{top};1H\x1b[{_DIM}m╭{rule}╮\x1b[39m"]
        for row in range(1, height):
            text = self._prose[rng.getrandbits(16) % _LINES]
            bullet = "\x1b[1m●\x1b[22m" if row % 4 == 1 else " "
            lines.append(f"\x1b[{top + row};1H\x1b[{_DIM}m│\x1b[39m {bullet} {text:<{COLS - 7}}\x1b[{_DIM}m│\x1b[39m")
        lines.append(f"\x1b[{top + height};1H\x1b[{_DIM}m╰{rule}╯\x1b[39m\x1b[{ROWS - 1};5H")
        return "".join(lines)

    def draw_diff(self) -> str:
        """A changed file with coloured backgrounds and line numbers."""
        rng, first = self._rng, self._rng.getrandbits(11)
        lines = [f"\x1b[3;1H\x1b[1mUpdate\x1b[22m(src/module_{rng.getrandbits(6)}.py)\x1b[K"]
        for row in range(4 + rng.getrandbits(4)):
            code = self._code[rng.getrandbits(16) % _LINES]
            match rng.getrandbits(2):
                case 0:
                    sign, back = "+", f"\x1b[{_ADDED}m"
                case 1:
                    sign, back = "-", f"\x1b[{_REMOVED}m"
                case _:
                    sign, back = " ", ""
            lines.append(f"\r\n{back}\x1b[{_DIM}m{first + row:5d} {sign}\x1b[39m {code:<{COLS - 10}}\x1b[49m\x1b[K")
        return "".join(lines)

    def redraw(self) -> str:
        """The whole screen from nothing."""
        self._row = 3
        rows = [f"\x1b[{2 + row};1H\x1b[2K{self._any_row()}" for row in range(ROWS - 6)]
        prompt = f"\x1b[{ROWS - 1};1H\x1b[{_DIM}m│\x1b[39m > \x1b[7m \x1b[27m\x1b[K"
        return f"\x1b[?25l\x1b[H\x1b[2J\x1b[3J{''.join(rows)}{prompt}{self.tick()}\x1b[?25h"

    def _any_row(self) -> str:
        rng = self._rng
        if rng.getrandbits(1):
            return self._code[rng.getrandbits(16) % _LINES]
        return self._prose[rng.getrandbits(16) % _LINES]

    def _sentence(self) -> str:
        words = self._rng.choices(_WORDS, k=18)
        if not self._rng.getrandbits(3):
            words[self._rng.getrandbits(3)] = self._rng.choice(_WIDE)
        return " ".join(words)[: COLS - 8]

    def _statement(self) -> str:
        rng = self._rng
        parts = [
            f"\x1b[38;2;{rng.getrandbits(8)};{rng.getrandbits(8)};{rng.getrandbits(8)}m{rng.choice(_SYMBOLS)}\x1b[39m"
        ]
        parts += [f"{word}_{rng.getrandbits(7)}" for word in rng.choices(_WORDS, k=4)]
        return " " * (4 * rng.getrandbits(2)) + " ".join(parts)


def write_log(path: Path, size_bytes: int) -> Path:
    """A file of log lines."""
    return _write(path, size_bytes, (line.encode() for line in log_lines(Random(SEED))))


def write_screen(path: Path, size_bytes: int) -> Path:
    """A file of screen updates."""
    return _write(path, size_bytes, (frame.encode() for frame in screen_frames(Random(SEED))))


def write_noise(path: Path, size_bytes: int) -> Path:
    """A file of bytes that are no text."""
    return _write(path, size_bytes, noise(Random(SEED)))


#: The two streams that are measured, by name.
STREAMS: dict[str, Callable[[Path, int], Path]] = {"log": write_log, "tui": write_screen}


def _write(path: Path, size_bytes: int, parts: Iterator[bytes]) -> Path:
    written = 0
    with path.open("wb") as file:
        for part in parts:
            written += file.write(part)
            if written >= size_bytes:
                break
    return path
