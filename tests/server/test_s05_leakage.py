"""A token is in nobody's hands but its owner's: not in a log, a file, a process list or an agent's environment."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S
from tests.support.http import FRESH
from tests.support.up_process import open_own_up_process

_AGENT = "env; cat /proc/self/environ; echo done; sleep 600"


def _places(canary: str) -> list[str]:
    """Where a text is in what the machine shows of its processes."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                if canary.encode() in (process / name).read_bytes():
                    found.append(f"{process / name}: {(process / 'cmdline').read_bytes()!r}")
            except OSError:
                continue  # it has just ended
    return found


def _files(folder: Path, canary: str) -> list[str]:
    """The files of a folder in which a text is."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]


def test_s5_a_token_that_went_through_everything_is_found_nowhere(cli: Cli) -> None:
    with open_own_up_process(cli) as up:
        made = cli("token", "create", "--role", "operator", "--name", "canary")
        token = made.stdout.decode().strip()
        secret = token.split("_")[2]
        bearer = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=up.url, trust_env=False, limits=FRESH, timeout=DEADLINE_S, headers=bearer) as client:
            started = client.post("/api/v1/pods", json={"command": ["sh", "-c", _AGENT], "name": "canary"})
            assert started.status_code == 201, started.text
            pod = started.json()["id"]
            with connect(
                f"{up.url.replace('http', 'ws')}/api/v1/pods/{pod}/live", additional_headers=bearer
            ) as watching:
                assert watching.recv(timeout=DEADLINE_S)
            answers = [
                client.get("/api/v1/me"),
                client.get("/api/v1/pods"),
                client.get("/api/v1/events"),
                client.get("/api/v1/tokens"),
                client.get("/metrics"),
                client.get(f"/api/v1/pods/{token}"),
                client.get(f"/api/v1/{token}"),
                client.get("/api/v1/pods", params={"token": token}),
                client.get("/api/v1/search", params={"q": token}),
                client.post("/api/v1/pods", content=token, headers={"Content-Type": "application/json"}),
                client.post("/api/v1/tokens", json={"role": token}),
                client.delete(f"/api/v1/tokens/{token}"),
                client.get("/login", params={"code": token}),
                client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}x"}),
                client.get("/api/v1/me", headers={"Authorization": f"Basic {token}"}),
                client.get("/api/v1/me", headers={"Host": token}),
                client.get("/api/v1/me", headers={"Origin": f"http://{token}"}),
            ]
            with pytest.raises(InvalidStatus), connect(f"{up.url.replace('http', 'ws')}/api/v1/fleet?token={token}"):
                pass
        assert [answer.status_code for answer in answers if answer.status_code >= 500] == []
        cli.wait_for(lambda: b"done" in cli("logs", "canary").stdout)
        shown = cli("logs", "canary").stdout

        assert _places(secret) == []

        cli("stop", "canary", "--grace", "0")
    assert b"PATH=" in shown
    assert secret.encode() not in shown
    assert token.split("_")[1].encode() in cli.data.joinpath("catalog.sqlite").read_bytes()
    assert _files(cli.data, secret) == []
    assert _files(cli.work, secret) == []


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes, list[str]]:
    """A secret in the environment of ``up``, what an agent of it shows of its own, and the processes that have it."""
    root = tmp_path_factory.mktemp("around")
    (root / "work").mkdir()
    cli = Cli(root / "data", root / "work")
    with open_own_up_process(cli):
        token = cli("token", "create", "--role", "operator").stdout.decode().strip()
    with open_own_up_process(cli, token=token) as up:
        with httpx.Client(
            base_url=up.url,
            trust_env=False,
            limits=FRESH,
            timeout=DEADLINE_S,
            headers={"Authorization": f"Bearer {token}"},
        ) as client:
            client.post("/api/v1/pods", json={"command": ["sh", "-c", _AGENT], "name": "canary"}).raise_for_status()
        cli.wait_for(lambda: b"done" in cli("logs", "canary").stdout)
        shown, having = cli("logs", "canary").stdout, _places(token.split("_")[2])
        cli("stop", "canary", "--grace", "0")
    assert _files(cli.data, token.split("_")[2]) == []
    return token.split("_")[2], shown, having


def test_s5_a_token_in_the_servers_environment_is_not_handed_on_to_agents(
    around: tuple[str, bytes, list[str]],
) -> None:
    secret, shown, having = around

    assert b"PATH=" in shown
    assert secret.encode() not in shown
    assert [place for place in having if "scrubjay" not in place] == []


def test_s5_a_token_in_the_servers_environment_is_not_handed_on_to_its_own_processes(
    around: tuple[str, bytes, list[str]],
) -> None:
    _, _, having = around

    assert [place for place in having if "x00up" not in place] == []


def test_s5_a_login_code_is_in_no_log_and_no_file(cli: Cli) -> None:
    with open_own_up_process(cli) as up, httpx.Client(trust_env=False, limits=FRESH, timeout=DEADLINE_S) as client:
        code = up.login.partition("code=")[2]
        entered = client.get(up.login)
        again = client.get(up.login)
        cookie = entered.headers["set-cookie"].partition("=")[2].partition(";")[0]

    assert (entered.status_code, again.status_code) == (303, 410)
    assert code not in entered.text + again.text
    for canary in (code, cookie.partition(".")[2]):
        assert len(canary) == 52
        assert _files(cli.data, canary) == _files(cli.work, canary) == []
