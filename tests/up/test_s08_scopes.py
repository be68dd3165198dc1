"""S8, S20: what an agent does by a scope, on the tape and in the events; and what ends when the scope does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import cast
from unittest import mock

import pytest
from websockets.exceptions import ConnectionClosed

from scrubjay.pods.pod import Pod
from scrubjay.server import guard
from scrubjay.server.gate import Gate
from scrubjay.server.guard import LOCAL
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until
from tests.support.guarded_server import Answer
from tests.support.in_process_up import InProcessUp, Onlooker
from tests.support.tiers import ALONE
from tests.up.access_matrix import SHELL, bind, come, unbind

pytestmark = pytest.mark.anyio

_READ, _WRITE = "terminal:read", "terminal:write"


@pytest.fixture(scope="module", autouse=True)
def _recheck_soon() -> Generator[None]:
    """Look up again soon who has something open, but where it is asserted how soon that is."""
    with mock.patch.object(guard, "RECHECK_S", guard.RECHECK_S if ALONE else 0.1):
        yield


@asynccontextmanager
async def _pair(up: InProcessUp, name: str, *scopes: str) -> AsyncGenerator[tuple[Pod, str, str]]:
    """A pod, the token of another that has scopes on it, and the binding; the other is called ``of-NAME``."""
    pod, other = await up.start(*SHELL, name=name), await up.start("sleep", "1000", name=f"of-{name}")
    token = await up.token("pod", pod=other.id)
    yield pod, token, await bind(up, other.name, name, *scopes)
    for each in (pod, other):
        await up.stop(each)


def _typed(pod: Pod) -> list[tuple[str, bytes]]:
    typed = [record.typed() for record in pod.tape().records() if record.kind == Kind.INPUT]
    return [(one.author, one.data) for one in typed]


async def _post(up: InProcessUp, token: str, pod: str, what: str, body: Json) -> Answer:
    return await come(up, token, "POST", f"/api/v1/pods/{pod}/{what}", body)


async def _closing(viewer: Onlooker, *, within_s: float = DEADLINE_S) -> tuple[int, str]:
    """Code and reason, when it is closed."""
    async with asyncio.timeout(within_s):
        with pytest.raises(ConnectionClosed) as closed:
            await viewer.until(lambda: False)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def test_s8_the_end_of_a_binding_closes_what_is_open_by_it_and_gives_the_keyboard_back(
    up: InProcessUp, promised: Callable[[float], float]
) -> None:
    async with _pair(up, "ended", _READ, _WRITE) as (pod, token, binding):
        live, replay = f"/api/v1/pods/{pod.name}/live", f"/api/v1/pods/{pod.id}/replay"
        async with (
            up.look(live, token) as viewer,
            up.look(live + "?mode=watch", token) as watcher,
            up.look(replay, token) as audience,
            up.look(live) as person,
        ):
            await viewer.take_keyboard()
            await watcher.until(lambda: watcher.keyframes)
            await audience.told("recording")
            assert up.server.tower.keyboards.holder(pod.id) is not None

            await unbind(up, binding)

            closings = await asyncio.gather(
                *(_closing(one, within_s=promised(5)) for one in (viewer, watcher, audience))
            )
            assert closings == [(4403, "no longer allowed")] * 3
            await until(lambda: up.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
            await person.take_keyboard()
            await person.say(b"still here\n")
            await person.until(lambda: b"got still here" in person.output)

        assert _typed(pod) == [(f"operator:{LOCAL.name}", b"still here\n")]
        assert (await come(up, token, "GET", f"/api/v1/pods/{pod.id}")).status == 404


async def test_s8_who_loses_the_right_to_type_and_not_to_look_is_closed_and_may_come_back_to_look(
    up: InProcessUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowed, close_lapsed = asyncio.Event(), Gate.close_lapsed

    async def close_once_narrowed(gate: Gate) -> None:
        await narrowed.wait()  # between the two bindings there is no right to look either
        await close_lapsed(gate)

    monkeypatch.setattr(Gate, "close_lapsed", close_once_narrowed)
    async with _pair(up, "narrowed", _READ, _WRITE) as (pod, token, binding):
        path = f"/api/v1/pods/{pod.name}/live"
        async with up.look(path, token) as viewer, up.look(path + "?mode=watch", token) as watcher:
            await viewer.take_keyboard()
            await watcher.until(lambda: watcher.keyframes)

            await unbind(up, binding)
            await bind(up, "of-narrowed", pod.name, _READ)
            narrowed.set()

            assert await _closing(viewer) == (4403, "no longer allowed")
            await until(lambda: up.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
            await up.post(f"/api/v1/pods/{pod.id}/input", {"text": "seen", "enter": True})
            await watcher.until(lambda: b"got seen" in watcher.output)
        async with up.look(path, token) as again:
            await again.until(lambda: again.keyframes)
            assert again.messages[0]["may_type"] is False


async def test_s8_no_key_is_typed_by_a_right_that_has_just_ended(
    up: InProcessUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Gate) -> None:
        return

    monkeypatch.setattr(Gate, "close_lapsed", never)  # so that it is the key that is looked at
    async with _pair(up, "late", _READ, _WRITE) as (pod, token, binding):
        async with up.look(f"/api/v1/pods/{pod.id}/live", token) as viewer:
            await viewer.take_keyboard()
            await viewer.say(b"in time\n")
            await viewer.until(lambda: b"got in time" in viewer.output)

            await unbind(up, binding)
            await viewer.say(b"too late\n")

            assert await _closing(viewer) == (4403, "you may not type here")
        assert _typed(pod) == [("pod:of-late", b"in time\n")]
        [refused] = await up.events(pod, "input.refused")
        assert cast(Json, refused["data"])["by"] == "of-late"


async def test_s20_a_binding_that_only_reads_types_nothing_and_every_try_is_kept(up: InProcessUp) -> None:
    async with _pair(up, "read-only", _READ) as (pod, token, _):
        messages: list[Json | bytes] = [
            b"rm -rf\n",
            {"type": "input", "text": "x"},
            {"type": "take"},
            {"type": "take", "takeover": True},
            {"type": "resize", "cols": 50, "rows": 20},
            {"type": "interrupt", "signal": "KILL"},
        ]
        for message in messages:
            async with up.look(f"/api/v1/pods/{pod.name}/live", token) as viewer:
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
            answer = await _post(up, token, pod.name, what, body)
            assert (answer.status, answer.code) == (403, code), what

        assert not [
            record
            for record in pod.tape().records()
            if record.kind in (Kind.INPUT, Kind.RESIZE, Kind.SIGNAL, Kind.MARK)
        ]
        refused = [cast(Json, event["data"]) for event in await up.events(pod, "input.refused")]
        assert len(refused) == len(messages) + 2
        assert {(str(one["by"]), str(one["role"])) for one in refused} == {("of-read-only", "pod")}
        assert up.is_running(pod)


async def test_s20_an_agent_that_may_type_is_named_on_the_tape_and_does_nothing_else(up: InProcessUp) -> None:
    async with _pair(up, "typed", _READ, _WRITE) as (pod, token, _):
        path = f"/api/v1/pods/{pod.name}/live"
        async with up.look(path, token) as viewer:
            await viewer.take_keyboard()
            assert viewer.messages[-1]["holder"] == "of-typed"
            await viewer.say(b"by key\n")
            await viewer.until(lambda: b"got by key" in viewer.output)
            await viewer.say({"type": "give"})
            assert (await _post(up, token, "type", "input", {"text": "by request\n"})).status == 200
            await viewer.until(lambda: b"got by request" in viewer.output)
            assert (await _post(up, token, pod.id, "mark", {"label": "there"})).status == 200
            assert (await viewer.told("marked"))["author"] == "pod:of-typed"
        for message in ({"type": "resize", "cols": 50, "rows": 20}, {"type": "interrupt", "signal": "KILL"}):
            async with up.look(path, token) as viewer:
                await viewer.take_keyboard()
                await viewer.say(cast(Json, message))
                assert await _closing(viewer) == (4403, "you may type here and nothing else")

        assert _typed(pod) == [("pod:of-typed", b"by key\n"), ("pod:of-typed", b"by request\n")]
        assert not [record for record in pod.tape().records() if record.kind in (Kind.RESIZE, Kind.SIGNAL)]
        taken = [cast(Json, event["data"]) for event in await up.events(pod, "keyboard.taken")]
        assert {str(one["by"]) for one in taken} == {"of-typed"}
        assert all(str(one["principal"]).startswith("token:") for one in taken)


async def test_s20_an_agent_takes_the_keyboard_from_nobody(up: InProcessUp) -> None:
    async with _pair(up, "held", _READ, _WRITE) as (pod, token, _):
        path = f"/api/v1/pods/{pod.name}/live"
        async with up.look(path) as person:
            await person.take_keyboard()
            async with up.look(path, token) as viewer:
                await viewer.say({"type": "take"})
                assert f"{LOCAL.name} has the keyboard" in str((await viewer.told("refusal"))["message"])
                await viewer.say({"type": "take", "takeover": True})
                assert await _closing(viewer) == (4403, "you may type here and nothing else")
            held = await _post(up, token, pod.name, "input", {"text": "x"})
            taken_over = await _post(up, token, pod.name, "input", {"text": "x", "takeover": True})
            await person.say(b"mine\n")
            await person.until(lambda: b"got mine" in person.output)

        assert (held.status, held.code) == (409, "keyboard_held")
        assert (taken_over.status, taken_over.code) == (403, "not_allowed")
        assert _typed(pod) == [(f"operator:{LOCAL.name}", b"mine\n")]


async def test_s8_a_revoked_token_is_worth_nothing_whatever_was_granted_to_its_agent(up: InProcessUp) -> None:
    async with _pair(up, "revoked", _READ, _WRITE) as (pod, token, _):
        async with up.look(f"/api/v1/pods/{pod.name}/live", token) as viewer:
            await viewer.take_keyboard()

            response = await up.http.delete(f"/api/v1/tokens/{token.split('_')[1]}")

            assert response.status_code == 204
            assert (await _closing(viewer))[0] == 4401
        await until(lambda: up.server.tower.keyboards.holder(pod.id) is None, "the keyboard is free")
        assert (await _post(up, token, pod.name, "input", {"text": "x"})).status == 401
        assert _typed(pod) == []


async def test_s8_a_beginning_is_unique_among_those_that_one_knows(up: InProcessUp) -> None:
    async with _pair(up, "twin-one", _READ) as (pod, token, _), _pair(up, "twin-two", _READ):
        shown = await come(up, token, "GET", "/api/v1/pods/twin")
        own = await come(up, token, "GET", "/api/v1/pods/of-twin")

        assert (shown.json["id"], own.json["name"]) == (pod.id, "of-twin-one")
        ambiguous = await up.http.get("/api/v1/pods/twin")
        assert ambiguous.json()["error"]["code"] == "ambiguous_pod"
        assert (await come(up, token, "GET", "/api/v1/pods/twin-two")).code == "no_such_pod"


async def test_s8_the_scopes_of_an_agent_outlive_the_pod_it_was_in_and_the_one_it_has_them_on(
    up: InProcessUp,
) -> None:
    async with _pair(up, "goes-on", _READ) as (pod, _, _):
        started: list[str] = []
        for session, name in ((up.home.find("of-goes-on").session, "next"), (pod.session, "next-goes-on")):
            body: Json = {"command": ["sleep", "1000"], "name": name, "session": session}
            started.append(str((await up.post("/api/v1/pods", body))["id"]))
        later = await up.token("pod", pod=started[0])

        seen = [(await come(up, later, "GET", f"/api/v1/pods/{pod}")).status for pod in (pod.name, started[1])]
        own = await come(up, later, "GET", "/api/v1/pods/of-goes-on/screen")
        written = await _post(up, later, "of-goes-on", "input", {"text": "x"})

        assert seen == [200, 200]
        assert own.status == 200  # what its session did before is its own
        assert (written.status, written.code) == (403, "not_allowed")
        for each in started:
            await up.post(f"/api/v1/pods/{each}/stop", {"grace_s": 0})
