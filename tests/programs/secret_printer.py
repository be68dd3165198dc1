"""An agent that prints secrets in every way they get onto a terminal.

It prints what stands in its environment under names that begin with CANARY, and in a file it is given, way by way;
then it reads until a line says ``end``. After a line that says ``hide`` the echo is off.
"""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PACE_S = 0.001  # enough for whoever reads to have read
_SLOW_S = 0.06
_SLOW_LINES = 3  # of a long secret: all of them would take seconds
_FILLER_BYTES = 3 << 20  # a tape that is worth keyframes of its own


def _whole(value: bytes) -> Iterator[bytes]:
    yield value


def _split(value: bytes) -> Iterator[bytes]:
    for code in value:
        time.sleep(_PACE_S)
        yield bytes([code])


def _slow(value: bytes) -> Iterator[bytes]:
    step = max(1, len(value) // 3)
    for start in range(0, len(value), step):
        time.sleep(_SLOW_S)
        yield value[start : start + step]


def _coloured(value: bytes) -> Iterator[bytes]:
    half = len(value) // 2
    yield b"\x1b[31m" + value[:half] + b"\x1b[0;32m" + value[half:] + b"\x1b[0m"


def _rainbow(value: bytes) -> Iterator[bytes]:
    yield b"".join([b"\x1b[3%dm%c\x1b[0m" % (number % 8, code) for number, code in enumerate(value)])


def _wrapped(value: bytes) -> Iterator[bytes]:
    """At 80 columns, as the terminal would, but by the program."""
    yield b"\r\n".join([value[start : start + 80] for start in range(0, len(value), 80)])


def _indented(value: bytes) -> Iterator[bytes]:
    half = len(value) // 2
    yield b"  " + value[:half] + b"\x1b[K\r\n    " + value[half:]


def _boxed(value: bytes) -> Iterator[bytes]:
    side = "│".encode()
    half = len(value) // 2
    yield side + b" " + value[:half] + b" " + side + b"\r\n" + side + b" " + value[half:] + b" " + side


_WAYS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "whole": _whole,
    "split": _split,
    "slow": _slow,
    "coloured": _coloured,
    "rainbow": _rainbow,
    "wrapped": _wrapped,
    "indented": _indented,
    "boxed": _boxed,
}


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _print_all(way: str, values: dict[str, str]) -> None:
    _write(f"\r\n== {way} ==\r\n".encode())
    for name, value in sorted(values.items()):
        if way == "slow" and not name.startswith("CANARY0"):
            continue
        lines = value.encode().split(b"\n")
        for line in lines[:_SLOW_LINES] if way == "slow" else lines:
            for part in _WAYS[way](line):
                _write(part)
            _write(b"\r\n")


def _hide_typing() -> None:
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
    _write(b"hidden\r\n")


def main() -> None:
    """Print, then listen."""
    values = {name: value for name, value in os.environ.items() if name.startswith("CANARY")}
    if len(sys.argv) > 2:
        values |= dict(entry.split("\t", 1) for entry in Path(sys.argv[2]).read_text().split("\0") if entry)
    for way in sys.argv[1].split(","):
        if way == "filler":
            _write(b"nothing to see here\r\n" * (_FILLER_BYTES // 21))
        else:
            _print_all(way, values)
    _write(b"\r\nprinted\r\n")
    while (line := sys.stdin.readline().strip()) != "end":
        if line == "hide":
            _hide_typing()


if __name__ == "__main__":
    main()
