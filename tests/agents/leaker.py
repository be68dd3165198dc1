"""An agent that prints what it finds in its environment, in every way a secret gets onto a terminal.

It is told the ways by their names and prints one canary a line, each begun with the way and the variable's name.
"""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable, Iterator

_PACE_S = 0.001  # enough for whoever reads to have read
_SLOW_S = 0.06


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
    yield b"\r\n" + b"\r\n".join([value[start : start + 80] for start in range(0, len(value), 80)])


def _indented(value: bytes) -> Iterator[bytes]:
    half = len(value) // 2
    yield b"\r\n  " + value[:half] + b"\x1b[K\r\n    " + value[half:]


def _boxed(value: bytes) -> Iterator[bytes]:
    side = "│".encode()
    half = len(value) // 2
    yield b"\r\n" + side + b" " + value[:half] + b" " + side + b"\r\n" + side + b" " + value[half:] + b" " + side


WAYS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "whole": _whole,
    "split": _split,
    "slow": _slow,
    "coloured": _coloured,
    "rainbow": _rainbow,
    "wrapped": _wrapped,
    "indented": _indented,
    "boxed": _boxed,
}


def _print(text: bytes, way: str) -> None:
    for part in WAYS[way](text):
        while part:
            part = part[os.write(1, part) :]


def _read_hidden() -> None:
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)


def main() -> None:
    """Print, then read until a line says ``end``; before a line that says ``hide`` is answered, the echo goes off."""
    variables = sorted(name for name in os.environ if name.startswith("CANARY"))
    printed = {name: os.environ[name] for name in variables}
    if len(sys.argv) > 2:
        printed |= dict(line.split("\t", 1) for line in open(sys.argv[2]).read().split("\0") if line)
    for way in sys.argv[1].split(","):
        for name, value in sorted(printed.items()):
            text = value.encode()
            for line in text.split(b"\n"):
                _print(line, way)
                os.write(1, b"\r\n")
    os.write(1, b"\r\nprinted\r\n")
    while (line := sys.stdin.readline().strip()) != "end":
        if line == "hide":
            _read_hidden()
            os.write(1, b"hidden\r\n")


if __name__ == "__main__":
    main()
