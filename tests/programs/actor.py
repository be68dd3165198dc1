"""Act as an agent does: ask the terminal whether it listens to statuses, and then as the script says.

Stand-alone: ``python -I -S actor.py SCRIPT LOG``. SCRIPT is a JSON list of steps, each a list: ``["say", "working"]``
sends OSC 7501, ``["print", TEXT]`` prints, ``["wait", SECONDS]`` waits, ``["await", PATH]`` waits until there is a
file, and ``["read"]`` waits for a line. A script that says nothing does not ask the terminal. LOG gets a line with the
wall clock in microseconds for each step, as it begins.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import tty

QUERY = b"\x1b]7501;?\x1b\\"
ANSWER_S = 60  # a busy machine takes long to answer; without an answer the agent would stay silent


def main() -> None:
    script = json.loads(sys.argv[1])
    tty.setcbreak(0)
    heard = b""
    if any(what == "say" for what, *_ in script):
        os.write(1, QUERY)
        while QUERY not in heard and select.select([0], [], [], ANSWER_S)[0]:
            heard += os.read(0, 1000)
    for what, *rest in script:
        note(f"{time.time_ns() // 1000} {what} {json.dumps(rest)}\n")
        if what == "say" and QUERY in heard:
            os.write(1, b"\x1b]7501;state=%s\x1b\\" % rest[0].encode())
        elif what == "print":
            os.write(1, rest[0].encode())
        elif what == "wait":
            time.sleep(rest[0])
        elif what == "await":
            while not os.path.exists(rest[0]):
                time.sleep(0.01)
        elif what == "read":
            line = b""
            while not line.endswith((b"\r", b"\n")):
                line += os.read(0, 1000)


def note(line: str) -> None:
    with open(sys.argv[2], "a") as log:
        log.write(line)


main()
