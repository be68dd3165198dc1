"""The harness signals single processes only, whatever a test has got hold of."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from chaos.machine import eventually, is_alive, kill


@pytest.mark.parametrize("pid", [0, 1, -1, -os.getpgrp()])
def test_no_group_and_not_the_first_process_is_ever_signalled(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    with pytest.raises(AssertionError, match="is not one process"):
        kill(pid, signal.SIGUSR1)

    assert sent == []


def test_one_process_is_signalled_and_one_that_is_gone_is_no_error() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        kill(process.pid)
        eventually(lambda: not is_alive(process.pid), "it has ended", within_s=5)

    kill(process.pid)


def test_waiting_in_vain_says_what_for() -> None:
    with pytest.raises(AssertionError, match=r"not within 0.01 s: pigs fly"):
        eventually(lambda: False, "pigs fly", within_s=0.01)
