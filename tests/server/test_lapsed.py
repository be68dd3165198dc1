"""What is open by a right that has ended is closed, whoever has it open."""

from __future__ import annotations

import asyncio

import pytest

from scrubjay.fleet.access import Action, Principal
from scrubjay.ids import PodId
from tests.server.frames import RawSocket, frame
from tests.support.conditions import DEADLINE_S
from tests.support.guarded_server import GrantedPermits, GuardedServer, hang_up, read_answer

pytestmark = pytest.mark.anyio

_POD = "b" * 26
_LIVE = f"/api/v1/pods/{_POD}/live"


async def _agent(guarded_server: GuardedServer) -> tuple[str, str]:
    """An agent that may look at the pod."""
    guarded_server.granted["agent", _POD] = {"terminal:read"}
    return await guarded_server.bearer("agent")


async def _echoes(opened: RawSocket) -> bool:
    opened.send(frame(1, b"hi"))
    return await opened.read() == (1, b'{"heard": 2}')


async def test_a_scope_opens_a_pod_and_its_end_closes_what_is_open(guarded_server: GuardedServer) -> None:
    agent, person = await _agent(guarded_server), await guarded_server.bearer("viewer")
    assert (await guarded_server.ask("GET", f"/api/v1/pods/{_POD}", agent)).status == 200
    opened, other = [await RawSocket.open(guarded_server.port, _LIVE, who) for who in (agent, person)]
    assert await _echoes(opened)

    guarded_server.granted["agent", _POD].clear()

    assert await opened.closed() == 4403
    assert await _echoes(other)
    refused = await guarded_server.ask("GET", f"/api/v1/pods/{_POD}", agent)
    assert (refused.status, refused.code) == (403, "scope_missing")
    assert f"request_binding(pod='{_POD}', scopes=['terminal:read'])" in refused.json["error"]["hint"]
    assert (await guarded_server.knock(_LIVE, agent)).status == 403
    for each in (opened, other):
        await each.hang_up()


async def test_a_response_that_does_not_end_is_cut(guarded_server: GuardedServer) -> None:
    _, bearer = await _agent(guarded_server)
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded_server.port)
    path = f"/api/v1/pods/{_POD}/forever"
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{guarded_server.port}", f"Authorization: {bearer}", "", ""]
    writer.write("\r\n".join(lines).encode())
    assert (await read_answer(reader)).status == 200

    guarded_server.granted["agent", _POD].clear()

    async with asyncio.timeout(DEADLINE_S):
        try:
            while await reader.read(4096):
                continue
        except ConnectionResetError:
            pass
    await hang_up(writer)


async def test_what_cannot_be_checked_is_closed_and_nothing_else_is(
    guarded_server: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, person = await _agent(guarded_server), await guarded_server.bearer("viewer")
    opened, other = [await RawSocket.open(guarded_server.port, _LIVE, who) for who in (agent, person)]
    allows = GrantedPermits.allows

    def fail_for_agents(permits: GrantedPermits, principal: Principal, action: Action, pod: PodId) -> bool:
        if principal.role == "agent":
            raise RuntimeError("nobody has thought of this")
        return allows(permits, principal, action, pod)

    monkeypatch.setattr(GrantedPermits, "allows", fail_for_agents)

    assert await opened.closed() == 4403
    assert await _echoes(other)
    for each in (opened, other):
        await each.hang_up()
