"""The harness signals single processes only, whatever a test has got hold of."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.conditions import DEADLINE_S, eventually
from tests.support.processes import hurry, is_alive, is_blocked_in_write, kill, takes_idle_time
from tests.support.small_disk import mount_small_disk


def test_no_group_and_not_the_first_process_is_ever_signaled(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    for pid in (0, 1, -1, -os.getpgrp()):
        with pytest.raises(AssertionError, match="is not one process"):
            kill(pid, signal.SIGUSR1)

    assert sent == []


def test_one_process_is_signaled_and_one_that_is_gone_is_no_error() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        kill(process.pid)
        eventually(lambda: not is_alive(process.pid), "it has ended")

    kill(process.pid)


def test_a_process_whose_pipe_is_full_is_blocked_in_a_write() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as idle,
        subprocess.Popen(["yes"], stdout=subprocess.PIPE) as full,
    ):
        eventually(lambda: is_blocked_in_write(full.pid), "the pipe is full")
        assert not is_blocked_in_write(idle.pid)
        kill(full.pid)

    assert not is_blocked_in_write(full.pid)


def test_waiting_in_vain_says_what_for() -> None:
    with pytest.raises(AssertionError, match=r"not within 0.01 s: pigs fly"):
        eventually(lambda: False, "pigs fly", within_s=0.01)


def test_who_takes_only_idle_time_can_be_made_to_hurry() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        assert takes_idle_time(process.pid)
        hurry(process.pid)
        assert not takes_idle_time(process.pid)
        kill(process.pid)

    hurry(process.pid)


@pytest.mark.needs("mount")
def test_a_disk_is_not_taken_from_who_takes_only_idle_time_and_is_about_to_end(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk", size="1m") as disk:
        process = subprocess.Popen(
            ["sh", "-c", "exec 3> file; echo; read -r _; sleep 0.1"],
            cwd=disk.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdin.close()  # as an indexer whose server is gone

    assert process.wait(DEADLINE_S) in (0, 1)
    process.stdout.close()
