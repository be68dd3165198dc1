"""Passes: made for pods that are yet to come, and ended when they do not."""

from __future__ import annotations

import json

import pytest

from scrubjay.fleet.access import Role
from scrubjay.server.credentials import PASS_S
from scrubjay.server.origins import nearest_origin
from tests.support.fake_clock import FakeClock
from tests.support.guarded_server import GuardedServer, RealServer

pytestmark = pytest.mark.anyio


def _bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


async def _status(guarded_server: GuardedServer, token: str) -> int:
    return (await guarded_server.ask("GET", "/api/v1/me", _bearer(token))).status


async def test_a_pass_is_the_token_of_a_pod_that_is_not_there_yet(server: RealServer) -> None:
    guarded_server = server.guarded_server

    answer = await guarded_server.ask("POST", "/api/v1/passes", await guarded_server.bearer())
    made = json.loads(answer.body)
    me = json.loads((await guarded_server.ask("GET", "/api/v1/me", _bearer(made["token"]))).body)

    assert answer.status == 201
    assert made["url"] == f"http://127.0.0.1:{guarded_server.port}/mcp"
    assert (me["role"], me["pod"]) == ("pod", made["pod"])


@pytest.mark.parametrize("role", ["viewer", "runner", "agent"])
async def test_only_an_operator_makes_and_takes_back_passes(server: RealServer, role: Role) -> None:
    guarded_server = server.guarded_server
    made = json.loads((await guarded_server.ask("POST", "/api/v1/passes", await guarded_server.bearer())).body)
    other = await guarded_server.bearer(role)

    for who in (other, _bearer(made["token"])):
        assert (await guarded_server.ask("POST", "/api/v1/passes", who)).status == 403
        assert (await guarded_server.ask("DELETE", f"/api/v1/passes/{made['pod']}", who)).status == 403
    assert await _status(guarded_server, made["token"]) == 200


async def test_a_pass_that_is_given_back_is_no_good_at_once(server: RealServer) -> None:
    guarded_server = server.guarded_server
    operator = await guarded_server.bearer()
    made = json.loads((await guarded_server.ask("POST", "/api/v1/passes", operator)).body)
    assert await _status(guarded_server, made["token"]) == 200  # and is believed for a while

    answer = await guarded_server.ask("DELETE", f"/api/v1/passes/{made['pod']}", operator)

    assert answer.status == 204
    assert await _status(guarded_server, made["token"]) == 401
    assert (await guarded_server.ask("DELETE", f"/api/v1/passes/{made['pod']}", operator)).status == 204
    assert (await guarded_server.ask("DELETE", "/api/v1/passes/claude", operator)).status == 400


async def test_the_token_of_a_pod_that_is_there_cannot_be_given_back(server: RealServer) -> None:
    guarded_server = server.guarded_server
    pod = await guarded_server.add_pod()
    token = await guarded_server.token("pod", pod=pod)

    await guarded_server.ask("DELETE", f"/api/v1/passes/{pod}", await guarded_server.bearer())

    assert await _status(guarded_server, token) == 200


async def test_a_pass_whose_pod_has_not_come_within_an_hour_is_revoked(
    timed_guarded_server: GuardedServer, clock: FakeClock
) -> None:
    guarded_server, credentials = timed_guarded_server, timed_guarded_server.gate.credentials
    pod = await guarded_server.add_pod()
    kept = await guarded_server.token("pod", pod=pod)
    operator = await guarded_server.token()
    early = await credentials.create_pass()
    clock.advance(PASS_S - 1)
    late = await credentials.create_pass()

    assert await credentials.revoke_lost_passes() == []
    clock.advance(1)
    [revoked] = await credentials.revoke_lost_passes()

    assert early.token.startswith(f"sjt_{revoked}_")
    assert await _status(guarded_server, early.token) == 401
    for token in (late.token, kept, operator):
        assert await _status(guarded_server, token) == 200


@pytest.mark.parametrize(
    ("host", "names", "origin"),
    [
        ("127.0.0.1", (), "http://127.0.0.1:8477"),
        ("localhost", ("jay.example.org",), "http://127.0.0.1:8477"),
        ("::1", (), "http://127.0.0.1:8477"),
        ("0.0.0.0", (), "https://127.0.0.1:8477"),
        ("::", (), "https://[::1]:8477"),
        ("10.0.0.5", (), "https://10.0.0.5:8477"),
        ("0.0.0.0", ("jay.example.org", "other"), "https://jay.example.org:8477"),
    ],
)
async def test_agents_reach_the_server_of_their_machine_by_the_shortest_way_that_its_certificate_allows(
    host: str, names: tuple[str, ...], origin: str
) -> None:
    assert str(nearest_origin(8477, host=host, tls=origin.startswith("https"), names=names)) == origin
