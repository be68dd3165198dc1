"""S8, S20: what an agent does by a scope, on the tape and in the events; and what ends when the scope does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed

from chaos.machine import until
from scrubjay.pods.pod import Pod
from scrubjay.server.gate import Gate
from scrubjay.server.guard import LOCAL
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from server.house import Answer
from up.machine import Machine, Onlooker
from up.neighbourhood import SHELL, bind, come, unbind

pytestmark = pytest.mark.anyio

_CLOSED_S = 5.0
_READ, _WRITE = "terminal:read", "terminal:write"


@asynccontextmanager
async def _pair(machine: Machine, name: str, *scopes: str) -> AsyncGenerator[tuple[Pod, str, str]]:
    """A pod, the token of another that has scopes on it, and the binding; the other is called ``of-NAME``."""
    pod, other = await machine.start(*SHELL, name=name), await machine.start("sleep", "1000", name=f"of-{name}")
    token = await machine.token("pod", pod=other.id)
    yield pod, token, await bind(machine, other.name, name, *scopes)
    for each in (pod, other):
        await machine.stop(each)


def _typed(pod: Pod) -> list[tuple[str, bytes]]:
    typed = [record.typed() for record in pod.tape().records() if record.kind == Kind.INPUT]
    return [(one.author, one.data) for one in typed]


async def _post(machine: Machine, token: str, pod: str, what: str, body: Json) -> Answer:
    return await come(machine, token, "POST", f"/api/v1/pods/{pod}/{what}", body)


async def _closing(viewer: Onlooker) -> tuple[int, str]:
    """Code and reason, when it is closed."""
    async with asyncio.timeout(_CLOSED_S):
        with pytest.raises(ConnectionClosed) as closed:
            await viewer.until(lambda: False)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def test_s8_the_end_of_a_binding_closes_what_is_open_by_it_and_gives_the_keyboard_back(machine: Machine) -> None:
    async with _pair(machine, "ended", _READ, _WRITE) as (pod, token, binding):
        live, replay = f"/api/v1/pods/{pod.name}/live", f"/api/v1/pods/{pod.id}/replay"
        async with (
            machine.look(live, token) as viewer,
            machine.look(live + "?mode=watch", token) as watcher,
            machine.look(replay, token) as audience,
            machine.look(live) as person,
        ):
            await viewer.take_keyboard()
            await watcher.until(lambda: watcher.keyframes)
            await audience.told("recording")
            assert machine.server.tower.keyboards.holder(pod.id) is not None

            await unbind(machine, binding)

            closings = await asyncio.gather(*(_closing(one) for one in (viewer, watcher, audience)))
            assert closings == [(4403, "no longer allowed")] * 3
            await until(lambda: machine.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
            await person.take_keyboard()
            await person.say(b"still here\n")
            await person.until(lambda: b"got still here" in person.output)

        assert _typed(pod) == [(f"operator:{LOCAL.name}", b"still here\n")]
        assert (await come(machine, token, "GET", f"/api/v1/pods/{pod.id}")).status == 404


async def test_s8_who_loses_the_right_to_type_and_not_to_look_is_closed_and_may_come_back_to_look(
    machine: Machine,
) -> None:
    async with _pair(machine, "narrowed", _READ, _WRITE) as (pod, token, binding):
        path = f"/api/v1/pods/{pod.name}/live"
        async with machine.look(path, token) as viewer, machine.look(path + "?mode=watch", token) as watcher:
            await viewer.take_keyboard()
            await watcher.until(lambda: watcher.keyframes)

            await unbind(machine, binding)
            await bind(machine, "of-narrowed", pod.name, _READ)

            assert await _closing(viewer) == (4403, "no longer allowed")
            await until(lambda: machine.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
            await machine.post(f"/api/v1/pods/{pod.id}/input", {"text": "seen", "enter": True})
            await watcher.until(lambda: b"got seen" in watcher.output)
        async with machine.look(path, token) as again:
            await again.until(lambda: again.keyframes)
            assert again.messages[0]["may_type"] is False


async def test_s8_no_key_is_typed_by_a_right_that_has_just_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Gate) -> None:
        return

    monkeypatch.setattr(Gate, "close_lapsed", never)  # so that it is the key that is looked at
    async with _pair(machine, "late", _READ, _WRITE) as (pod, token, binding):
        async with machine.look(f"/api/v1/pods/{pod.id}/live", token) as viewer:
            await viewer.take_keyboard()
            await viewer.say(b"in time\n")
            await viewer.until(lambda: b"got in time" in viewer.output)

            await unbind(machine, binding)
            await viewer.say(b"too late\n")

            assert await _closing(viewer) == (4403, "you may not type here")
        assert _typed(pod) == [("pod:of-late", b"in time\n")]
        [refused] = await machine.events(pod, "input.refused")
        assert cast(Json, refused["data"])["by"] == "of-late"


async def test_s20_a_binding_that_only_reads_types_nothing_and_every_try_is_kept(machine: Machine) -> None:
    async with _pair(machine, "read-only", _READ) as (pod, token, _):
        messages: list[Json | bytes] = [
            b"rm -rf\n",
            {"type": "input", "text": "x"},
            {"type": "take"},
            {"type": "take", "takeover": True},
            {"type": "resize", "cols": 50, "rows": 20},
            {"type": "interrupt", "signal": "KILL"},
        ]
        for message in messages:
            async with machine.look(f"/api/v1/pods/{pod.name}/live", token) as viewer:
                await viewer.until(lambda: viewer.keyframes)
                assert viewer.messages[0]["may_type"] is False
                await viewer.say(message)
                assert await _closing(viewer) == (4403, "this connection may only watch")
        requests: list[tuple[str, Json, str]] = [
            ("input", {"text": "x"}, "scope_missing"),
            ("mark", {"label": "x"}, "scope_missing"),
            ("resize", {"cols": 50, "rows": 20}, "not_allowed"),
            ("signal", {"signal": "KILL"}, "not_allowed"),
            ("stop", {}, "not_allowed"),
        ]
        for what, body, code in requests:
            answer = await _post(machine, token, pod.name, what, body)
            assert (answer.status, answer.code) == (403, code), what

        assert not [
            record
            for record in pod.tape().records()
            if record.kind in (Kind.INPUT, Kind.RESIZE, Kind.SIGNAL, Kind.MARK)
        ]
        refused = [cast(Json, event["data"]) for event in await machine.events(pod, "input.refused")]
        assert len(refused) == len(messages) + 2
        assert {(str(one["by"]), str(one["role"])) for one in refused} == {("of-read-only", "pod")}
        assert machine.is_running(pod)


async def test_s20_an_agent_that_may_type_is_named_on_the_tape_and_does_nothing_else(machine: Machine) -> None:
    async with _pair(machine, "typed", _READ, _WRITE) as (pod, token, _):
        path = f"/api/v1/pods/{pod.name}/live"
        async with machine.look(path, token) as viewer:
            await viewer.take_keyboard()
            assert viewer.messages[-1]["holder"] == "of-typed"
            await viewer.say(b"by key\n")
            await viewer.until(lambda: b"got by key" in viewer.output)
            await viewer.say({"type": "give"})
            assert (await _post(machine, token, "type", "input", {"text": "by request\n"})).status == 200
            await viewer.until(lambda: b"got by request" in viewer.output)
            assert (await _post(machine, token, pod.id, "mark", {"label": "there"})).status == 200
            assert (await viewer.told("marked"))["author"] == "pod:of-typed"
        for message in ({"type": "resize", "cols": 50, "rows": 20}, {"type": "interrupt", "signal": "KILL"}):
            async with machine.look(path, token) as viewer:
                await viewer.take_keyboard()
                await viewer.say(cast(Json, message))
                assert await _closing(viewer) == (4403, "you may type here and nothing else")

        assert _typed(pod) == [("pod:of-typed", b"by key\n"), ("pod:of-typed", b"by request\n")]
        assert not [record for record in pod.tape().records() if record.kind in (Kind.RESIZE, Kind.SIGNAL)]
        taken = [cast(Json, event["data"]) for event in await machine.events(pod, "keyboard.taken")]
        assert {str(one["by"]) for one in taken} == {"of-typed"}
        assert all(str(one["principal"]).startswith("token:") for one in taken)


async def test_s20_an_agent_takes_the_keyboard_from_nobody(machine: Machine) -> None:
    async with _pair(machine, "held", _READ, _WRITE) as (pod, token, _):
        path = f"/api/v1/pods/{pod.name}/live"
        async with machine.look(path) as person:
            await person.take_keyboard()
            async with machine.look(path, token) as viewer:
                await viewer.say({"type": "take"})
                assert f"{LOCAL.name} has the keyboard" in str((await viewer.told("refusal"))["message"])
                await viewer.say({"type": "take", "takeover": True})
                assert await _closing(viewer) == (4403, "you may type here and nothing else")
            held = await _post(machine, token, pod.name, "input", {"text": "x"})
            taken_over = await _post(machine, token, pod.name, "input", {"text": "x", "takeover": True})
            await person.say(b"mine\n")
            await person.until(lambda: b"got mine" in person.output)

        assert (held.status, held.code) == (409, "keyboard_held")
        assert (taken_over.status, taken_over.code) == (403, "not_allowed")
        assert _typed(pod) == [(f"operator:{LOCAL.name}", b"mine\n")]


async def test_s8_a_revoked_token_is_worth_nothing_whatever_was_granted_to_its_agent(machine: Machine) -> None:
    async with _pair(machine, "revoked", _READ, _WRITE) as (pod, token, _):
        async with machine.look(f"/api/v1/pods/{pod.name}/live", token) as viewer:
            await viewer.take_keyboard()

            response = await machine.http.delete(f"/api/v1/tokens/{token.split('_')[1]}")

            assert response.status_code == 204
            assert (await _closing(viewer))[0] == 4401
        await until(lambda: machine.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
        assert (await _post(machine, token, pod.name, "input", {"text": "x"})).status == 401
        assert _typed(pod) == []


async def test_s8_a_beginning_is_unique_among_those_that_one_knows(machine: Machine) -> None:
    async with _pair(machine, "twin-one", _READ) as (pod, token, _), _pair(machine, "twin-two", _READ):
        shown = await come(machine, token, "GET", "/api/v1/pods/twin")
        own = await come(machine, token, "GET", "/api/v1/pods/of-twin")

        assert (shown.json["id"], own.json["name"]) == (pod.id, "of-twin-one")
        ambiguous = await machine.http.get("/api/v1/pods/twin")
        assert ambiguous.json()["error"]["code"] == "ambiguous_pod"
        assert (await come(machine, token, "GET", "/api/v1/pods/twin-two")).code == "no_such_pod"


async def test_s8_the_scopes_of_an_agent_outlive_the_pod_it_was_in_and_the_one_it_has_them_on(
    machine: Machine,
) -> None:
    async with _pair(machine, "goes-on", _READ) as (pod, _, _):
        started: list[str] = []
        for session, name in ((machine.home.find("of-goes-on").session, "next"), (pod.session, "next-goes-on")):
            body: Json = {"command": ["sleep", "1000"], "name": name, "session": session}
            started.append(str((await machine.post("/api/v1/pods", body))["id"]))
        later = await machine.token("pod", pod=started[0])

        seen = [(await come(machine, later, "GET", f"/api/v1/pods/{pod}")).status for pod in (pod.name, started[1])]
        own = await come(machine, later, "GET", "/api/v1/pods/of-goes-on/screen")
        written = await _post(machine, later, "of-goes-on", "input", {"text": "x"})

        assert seen == [200, 200]
        assert own.status == 200  # what its session did before is its own
        assert (written.status, written.code) == (403, "not_allowed")
        for each in started:
            await machine.post(f"/api/v1/pods/{each}/stop", {"grace_s": 0})
