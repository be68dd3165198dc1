"""A forked command is like one that a shell started: a process with words, a session, a log and a status of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.conditions import eventually
from tests.support.forked_commands import ForkedCommand
from tests.support.processes import command_of, descriptors_of, is_alive, kill

_PATH = {"PATH": os.environ["PATH"]}


def _start(folder: Path, *words: str, environ: dict[str, str] | None = None) -> ForkedCommand:
    log = folder / "log"
    log.touch()
    argv = ["scrubjay", "--data", str(folder / "data"), *words]
    return ForkedCommand(argv, environ=_PATH | (environ or {}), log=log)


def test_a_forked_command_ends_with_its_own_status_and_writes_to_its_log(tmp_path: Path) -> None:
    listed = _start(tmp_path, "ps")
    refused = _start(tmp_path, "logs", "nobody")

    assert (listed.wait(), refused.wait()) == (0, 1)
    assert "scrubjay: there is no pod" in (tmp_path / "log").read_text()


def test_a_forked_command_is_found_by_its_words_and_shares_nothing(tmp_path: Path) -> None:
    server = _start(tmp_path, "server", "--port", "0", environ={"SCRUBJAY_LOG_LEVEL": "debug"})
    try:
        eventually((tmp_path / "data" / "server.sock").exists, "it serves")

        assert bytes(tmp_path / "data") in command_of(server.pid).split(b"\0")
        assert os.getsid(server.pid) == server.pid
        assert {descriptors_of(server.pid)[fd] for fd in (1, 2)} == {str(tmp_path / "log")}
        assert server.poll() is None
    finally:
        kill(server.pid)

    assert server.wait() == -signal.SIGKILL
    assert not is_alive(server.pid)
