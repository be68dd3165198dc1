"""``scrubjay up`` comes to its end, whatever is going on."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.conditions import DEADLINE_S

_SCRUBJAY = Path(sys.executable).parent / "scrubjay"


def test_it_does_not_wait_for_a_clone(tmp_path: Path) -> None:
    up = subprocess.Popen(
        [_SCRUBJAY, "--data", tmp_path, "up", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert up.stdout is not None
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as threads, up.stdout:
        silent.settimeout(DEADLINE_S)
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/project"
        try:
            assert up.stdout.readline()
            starting = threads.submit(_start, tmp_path, url)
            git, _ = silent.accept()
            with git:
                up.send_signal(signal.SIGINT)
                assert up.wait(DEADLINE_S) == 0
        finally:
            up.kill()
            up.wait()
    with pytest.raises(httpx.HTTPError):
        starting.result()


def _start(data: Path, repository: str) -> None:
    transport = httpx.HTTPTransport(uds=str(data / "server.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=DEADLINE_S) as client:
        body = {"command": ["sleep", "100"], "repository": repository}
        client.post("/api/v1/pods", json=body).raise_for_status()
