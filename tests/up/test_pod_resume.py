"""A pod that comes back: same name, session, bindings, channels, inbox and waits; one winner; or all as before."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import cast

import pytest

from chaos.machine import until
from mcp_room.raw import MODERN_VERSION, Raw, connected
from scrubjay.ids import PodId
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.tape.record import Json
from up.agents import Agent, acquaint, bind, open_agent, open_agents
from up.machine import Machine

pytestmark = pytest.mark.anyio


def _path(raw: str) -> str:
    return f"/api/v1/sessions/{raw}/resume"


async def _kill(machine: Machine, pod: Pod) -> None:
    """Kill a pod's agent with -9, and wait until everybody knows."""
    status = pod.observe().live
    assert status is not None
    os.kill(cast(int, status["agent_pid"]), signal.SIGKILL)
    await until(lambda: machine.server.tower.pods[pod.id].over, f"{pod.name} is over")


async def _session(machine: Machine, raw: str) -> Json:
    return cast(Json, await machine.get(f"/api/v1/sessions/{raw}"))


def _pod(machine: Machine, resumed: Json) -> Pod:
    pod = read_pod(machine.home.folder_of(PodId(str(resumed["id"]))))
    assert pod is not None
    return pod


async def test_a_killed_pod_comes_back_with_all_that_it_had_with_others(machine: Machine) -> None:
    async with open_agents(machine, "phoenix", "friend", "boss") as [phoenix, friend, boss]:
        await acquaint(phoenix, friend, boss, channel="nest")
        await bind(phoenix, friend, "terminal:read")
        await phoenix.call("add_memory", prompt="before the fire")
        waits = await phoenix.call("wait_for", pod="boss", reason="the plan", timeout_s=0)
        await _kill(machine, phoenix.pod)
        await friend.call("post_message", to="phoenix", text="are you there?")
        assert (await _session(machine, phoenix.pod.session))["state"] == "suspended"

        resumed = await machine.post(_path("phoenix"), {})

        new = _pod(machine, resumed)
        assert (new.name, new.session, new.resumed_from) == ("phoenix", phoenix.pod.session, phoenix.pod.id)
        assert resumed["epoch"] == 2
        token = await machine.token("pod", pod=new.id)
        async with connected(machine.server.url, token) as http:
            again = Agent("phoenix", Raw(http, MODERN_VERSION), token, new)
            back = await again.call("resume_session")
            assert (back["resumed"], back["session_id"], back["last_seq"]) == (True, new.session, 1)
            assert cast(list[Json], back["messages"])[-1]["text"] == "are you there?"
            assert [wait["id"] for wait in cast(list[Json], back["open_waits"])] == [waits["wait"]]
            assert (await again.call("add_memory", prompt="after it"))["seq"] == 2
            await again.call("view_screen", pod="friend")
            await again.call("post_message", channel="nest", text="@boss I am back")
            await boss.call("post_message", channel="nest", text="@phoenix here is the plan")
            assert (await again.call("whoami"))["open_waits"] == []  # what it waited for has come
        shown = await _session(machine, new.session)
        assert [pod["id"] for pod in cast(list[Json], shown["pods"])] == [phoenix.pod.id, new.id]
        assert (shown["state"], shown["held_by"], shown["epoch"]) == ("open", "phoenix", 2)
        await machine.stop(new)


async def test_a_session_whose_pod_runs_is_held_and_given_up_only_when_it_is_taken_over(machine: Machine) -> None:
    pod = await machine.start("cat", name="busy")
    refused = await machine.http.post(_path(pod.session), json={})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "lease_held"
    assert "is held by busy" in refused.json()["error"]["message"]
    assert machine.is_running(pod)

    resumed = await machine.post(_path(pod.session), {"takeover": True})

    new = _pod(machine, resumed)
    assert machine.server.tower.pods[pod.id].over
    assert machine.is_running(new)
    assert (await _session(machine, pod.session))["epoch"] == 2
    of_it = [event for event in await machine.events() if pod.session in str(event["data"])]
    kinds = [str(event["kind"]) for event in of_it if str(event["kind"]).startswith("session.")]
    assert kinds == ["session.opened", "session.refused", "session.taken_over"]
    await machine.stop(new)


async def test_what_does_not_start_leaves_everything_as_it_was(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    pod = await machine.start("cat", name="homeless", cwd=folder)
    await machine.stop(pod)
    folder.rmdir()
    before = await _session(machine, pod.session)
    pods = {other.id for other in machine.home.pods()}

    refused = await machine.http.post(_path("homeless"), json={})

    assert refused.status_code in (400, 409), refused.text
    after = await _session(machine, pod.session)
    same = ("state", "why", "held_by", "last_seq", "resumable")
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
    assert {other.id for other in machine.home.pods()} == pods
    folder.mkdir()
    resumed = await machine.post(_path("homeless"), {})
    await machine.stop(_pod(machine, resumed))


async def test_only_looking_starts_nothing_and_says_what_it_found(machine: Machine) -> None:
    pod = await machine.start("cat", name="looked-at")
    await machine.stop(pod)

    looked = await machine.post(_path("looked-at"), {"check": True})

    assert looked["id"] is None
    assert [finding["kind"] for finding in cast(list[Json], looked["findings"])] == ["no_conversation"]
    assert (await _session(machine, pod.session))["state"] == "suspended"


async def test_a_request_that_is_repeated_resumes_once(machine: Machine) -> None:
    pod = await machine.start("cat", name="twice")
    await machine.stop(pod)

    answers = await asyncio.gather(
        *(machine.post(_path("twice"), {}, **{"Idempotency-Key": "the key"}) for _ in range(3))
    )

    assert len({str(answer["id"]) for answer in answers}) == 1
    await machine.stop(_pod(machine, answers[0]))


async def test_a_finished_session_comes_back_only_by_being_reopened(machine: Machine) -> None:
    pod = await machine.start("cat", name="done")
    await machine.stop(pod)
    assert (await machine.post(f"/api/v1/sessions/{pod.session}/finish", {"reason": "merged"}))["state"] == "finished"

    refused = await machine.http.post(_path("done"), json={"takeover": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_finished")

    resumed = await machine.post(_path("done"), {"reopen": True})
    await machine.stop(_pod(machine, resumed))


async def test_who_has_no_pod_to_come_back_to_is_told_what_to_do(machine: Machine) -> None:
    async with open_agent(machine, "agent", "podless") as agent:
        session = str((await agent.call("add_memory", prompt="hello"))["session_id"])

    refused = await machine.http.post(_path(session), json={})
    assert refused.status_code == 400
    assert "never had a pod" in refused.json()["error"]["message"]
    missing = await machine.http.post(_path("nowhere-at-all"), json={})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_such_session")


async def test_a_person_resumes_a_pod_over_mcp_and_an_agent_does_not(machine: Machine) -> None:
    pod = await machine.start("cat", name="remote")
    await machine.stop(pod)
    async with open_agent(machine, "operator", "olga") as olga, open_agent(machine, "agent", "andy") as andy:
        assert (await andy.refusal("resume_pod", pod="remote"))["code"] == "not_for_role"
        resumed = await olga.call("resume_pod", pod="remote", idempotency_key="k")
        assert await olga.call("resume_pod", pod="remote", idempotency_key="k") == resumed
        assert (await olga.refusal("resume_pod", pod="remote"))["code"] == "lease_held"
    new = _pod(machine, resumed)
    assert machine.is_running(new)
    await machine.stop(new)


async def test_a_person_adds_a_memory_to_what_nobody_holds(machine: Machine) -> None:
    pod = await machine.start("cat", name="noted")
    path = f"/api/v1/sessions/{pod.session}/memories"
    held = await machine.http.post(path, json={"prompt": "psst"})
    assert (held.status_code, held.json()["error"]["code"]) == (409, "lease_held")
    await machine.stop(pod)

    added = [await machine.post(path, {"prompt": "look at the log"}, **{"Idempotency-Key": "k"}) for _ in range(2)]

    assert [answer["seq"] for answer in added] == [1, 1]
    found = cast(Json, await machine.get("/api/v1/memories", query="log", session=pod.session))
    assert [memory["source"] for memory in cast(list[Json], found["memories"])] == ["person"]
