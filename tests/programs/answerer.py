"""A process that is the terminal of one pod, as a runner is: ``python answerer.py FOLDER POD NAME``.

It says ``ready`` when it answers. It holds nothing: killed at any moment, the next one goes on.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from scrubjay.errors import KeeperGone
from scrubjay.ids import parse_pod_id
from scrubjay.pods.connection import Connection
from scrubjay.runner.screens import Heard, LiveScreens
from scrubjay.tape.reader import Tape
from scrubjay.tape.stream import RecordStream

_OVERLAP_BYTES = 64 << 10


def main(folder: Path, raw_pod: str, name: str) -> None:
    """Answer until the pod ends."""
    pod = parse_pod_id(raw_pod)
    sending = threading.Lock()
    with Connection(folder, name) as keeper:

        def answer(_: str, heard: Heard) -> None:
            if heard.replies:
                with sending:
                    keeper.send({"do": "write", "author": "terminal", "answers": heard.offset}, heard.replies)

        screens = LiveScreens(heard=answer)
        tape = Tape(folder / "tape", pod)
        answer_from = keeper.ask({"do": "answer"})["from"]
        assert isinstance(answer_from, int)
        screens.open(pod, tape, folder, answer_from=answer_from)
        stream = RecordStream(pod, tape.align(max(0, tape.end - _OVERLAP_BYTES)))
        keeper.send({"do": "follow", "from": stream.wanted})
        print("ready", flush=True)
        try:
            while True:
                for meta, tail in keeper.receive():
                    if "tape" in meta:
                        screens.feed(pod, stream.feed(tail))
        except KeeperGone:
            screens.shut_down()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
