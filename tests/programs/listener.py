"""Act as an agent that waits for prompts: a box to write in, a transcript above it, and a log of what it was told.

Stand-alone: ``python -I -S listener.py LOG [--work-ms N] [--work-while PATH] [--swallow-texts N] [--swallow-enters N]
[--deaf-ms N] [--silent]``. LOG gets a line for each prompt that is submitted, in one write, before anything of it is
shown. Its work goes on for ``--work-ms``, and for as long as there is a file at ``--work-while``. It reports by OSC
7501 what it does, unless it is ``--silent``; then only its screen tells. ``--swallow-texts`` are bursts of keys that
come to nothing, ``--swallow-enters`` are Enters that do; ``--deaf-ms`` after each burst it reads nothing more.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import sys
import time
import tty

QUERY = b"\x1b]7501;?\x1b\\"
_REPLIES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]")
_SPIN = "|/-\\"
_ANSWER_S = 60  # a busy machine takes long to answer; without an answer only the screen would tell


class Listener:
    """One agent."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cols, self.rows = os.get_terminal_size(1)
        self.prompt = ""
        self.said: list[str] = ["Welcome to the listener."]
        self.doing = ""

    def report(self, state: str) -> None:
        """Say what it does to the terminal."""
        if not self.options.silent:
            os.write(1, b"\x1b]7501;state=%s\x1b\\" % state.encode())

    def draw(self) -> None:
        """Draw everything anew."""
        width = self.cols - 6
        rows = [self.prompt[start : start + width] for start in range(0, len(self.prompt), width)] or [""]
        box = [f"| {'> ' if not y else '  '}{row:<{width}} |" for y, row in enumerate(rows)]
        edge = "\u2500" * (self.cols - 2)
        foot = "" if self.doing else "  enter to send"
        bottom = [self.doing, f"\u256d{edge}\u256e", *box, f"\u2570{edge}\u256f", foot]
        above: list[str] = []
        for line in self.said:
            above += [line[start : start + self.cols] for start in range(0, len(line), self.cols)] or [""]
        shown = above[-(self.rows - len(bottom)) :] + bottom
        screen = "\x1b[?2026h\x1b[H\x1b[J" + "\r\n".join(shown[-self.rows :]) + "\x1b[?2026l"
        os.write(1, screen.encode())

    def submit(self) -> None:
        """Do what it was told."""
        text, self.prompt = self.prompt, ""
        log = os.open(self.options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, text.encode() + b"\n")
        os.close(log)
        self.said += ["", f"> {text}", ""]
        self.report("working")
        until = time.monotonic() + self.options.work_ms / 1000
        tick = 0
        while time.monotonic() < until or os.path.exists(self.options.work_while):
            self.doing = f"{_SPIN[tick % 4]} Thinking (esc to interrupt)"
            self.draw()
            tick += 1
            time.sleep(min(0.1, max(0.05, until - time.monotonic())))
        self.doing = ""
        self.said.append(f"* I have read {len(text)} characters.")
        self.draw()
        self.report("done")

    def take(self, keys: str) -> None:
        """Take a burst of keys."""
        if keys.strip("\r") and self.options.swallow_texts:
            self.options.swallow_texts -= 1
            keys = "".join(key for key in keys if key == "\r")
        for key in keys:
            if key == "\r":
                if self.options.swallow_enters:
                    self.options.swallow_enters -= 1
                elif self.prompt:
                    self.submit()
            elif key == "\x7f":
                self.prompt = self.prompt[:-1]
            elif key.isprintable():
                self.prompt += key
        self.draw()

    def run(self) -> None:
        """Listen until the terminal is gone."""
        tty.setraw(0)
        os.write(1, b"\x1b[?1049h\x1b[?25l" + QUERY)
        heard = b""
        while not self.options.silent and QUERY not in heard and select.select([0], [], [], _ANSWER_S)[0]:
            heard += os.read(0, 1000)
        self.draw()
        self.report("idle")
        rest = _REPLIES.sub(b"", heard)
        while True:
            keys = rest + os.read(0, 4096)
            keys = _REPLIES.sub(b"", keys)
            cut = max(keys.rfind(b"\x1b"), 0) if b"\x1b" in keys else len(keys)
            keys, rest = keys[:cut], keys[cut:]
            while True:  # a character may be cut in two
                try:
                    text = keys.decode()
                    break
                except UnicodeDecodeError:
                    keys += os.read(0, 1)
            self.take(text)
            time.sleep(self.options.deaf_ms / 1000)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--work-ms", type=int, default=200)
    parser.add_argument("--work-while", default="")
    parser.add_argument("--swallow-texts", type=int, default=0)
    parser.add_argument("--swallow-enters", type=int, default=0)
    parser.add_argument("--deaf-ms", type=int, default=0)
    parser.add_argument("--silent", action="store_true")
    Listener(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
