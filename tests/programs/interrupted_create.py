"""Make worktrees and be killed on the way, counting the calls of git.

Each line that is read, ``[HOME, REPOSITORY, "before" | "during", NUMBER]``, is one try, in a child that is killed
before or during that call; how it ended is said in a line, as a number below 0 for a signal. Killed "during" a call, it
leaves a git running that nobody waits for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from scrubjay.ids import PodName
from scrubjay.runner.worktrees import Worktrees


class _Deadly(subprocess.Popen[bytes]):
    calls, moment, number = 0, "", 0

    def __init__(self, *args: Any, **options: Any) -> None:
        _Deadly.calls += 1
        doomed = _Deadly.calls == _Deadly.number
        if doomed and _Deadly.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().__init__(*args, **options)
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)


def _create(home: str, repository: str, moment: str, number: int) -> None:
    _Deadly.moment, _Deadly.number = moment, number
    Worktrees(Path(home)).create(PodName("a"), repository=repository, branch=None)


def _try(*words: Any) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _create(*words)
            status = 0
        except Exception:  # noqa: BLE001 - the test judges it
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    subprocess.Popen = _Deadly
    for line in sys.stdin:
        print(_try(*json.loads(line)), flush=True)
