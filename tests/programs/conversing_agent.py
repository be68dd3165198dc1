"""Act as an agent that keeps its conversation in a file and can go on with it.

Stand-alone: ``talker [--talk ID | --go-on ID] [--say TEXT] [WORD…]``. Conversations are in ``$TALK_HOME``, by default
``~/.talk``; each line that is typed is added to it and said back with its number. What runs is written to
``live/PID.json``, which a clean end removes.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise


def main(words: list[str]) -> int:
    """Talk until the terminal has no more to say."""
    home = os.environ.get("TALK_HOME") or os.path.join(os.environ["HOME"], ".talk")
    os.makedirs(os.path.join(home, "live"), exist_ok=True)
    given = dict(pairwise(words))
    going_on = "--go-on" in words
    conversation = given.get("--go-on") or given.get("--talk") or "unnamed"
    path = os.path.join(home, conversation + ".jsonl")
    said: list[str] = []
    if os.path.exists(path):
        with open(path) as file:
            said = file.read().splitlines()
    if going_on and not said:
        print(f"there is no conversation {conversation}")
        return 1
    live = os.path.join(home, "live", f"{os.getpid()}.json")
    with open(live, "w") as file:
        json.dump({"pid": os.getpid(), "conversation": conversation}, file)
    print(f"words: {' '.join(words)}")
    print(f"goes on after {len(said)}: {said[-1]}" if going_on else f"begins {conversation}", flush=True)
    lines = [given["--say"]] if "--say" in given else []
    while True:
        line = lines.pop() if lines else sys.stdin.readline().rstrip("\n")
        if not line:
            break
        said.append(line)
        with open(path, "a") as file:
            file.write(line + "\n")
        print(f"heard {len(said)}: {line}", flush=True)
    os.unlink(live)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
