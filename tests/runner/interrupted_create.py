"""Make a worktree and be killed on the way: ``HOME REPOSITORY before|during NUMBER``, counting the calls of git.

Killed "during" a call, it leaves a git running that nobody waits for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from scrubjay.ids import PodName
from scrubjay.runner.worktrees import Worktrees


class _Deadly(subprocess.Popen[bytes]):
    calls = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        _Deadly.calls += 1
        doomed = _Deadly.calls == int(sys.argv[4])
        if doomed and sys.argv[3] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().__init__(*args, **options)
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    subprocess.Popen = _Deadly
    Worktrees(Path(sys.argv[1])).create(PodName("a"), repository=sys.argv[2], branch=None)
