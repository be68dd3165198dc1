"""A pod that comes back: same name, session, bindings, channels, inbox and waits; one winner; or all as before."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import cast

import pytest

from scrubjay.ids import PodId
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.tape.record import Json
from tests.support.conditions import until
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.up.agents import Agent, acquaint, bind, open_agent, open_agents

pytestmark = pytest.mark.anyio


def _path(raw: str) -> str:
    return f"/api/v1/sessions/{raw}/resume"


async def _kill(up: InProcessUp, pod: Pod) -> None:
    """Kill a pod's agent with -9, and wait until everybody knows."""
    status = pod.observe().live
    assert status is not None
    os.kill(cast(int, status["agent_pid"]), signal.SIGKILL)
    await until(lambda: up.server.tower.pods[pod.id].over, f"{pod.name} is over")


async def _session(up: InProcessUp, raw: str) -> Json:
    return cast(Json, await up.get(f"/api/v1/sessions/{raw}"))


def _pod(up: InProcessUp, resumed: Json) -> Pod:
    pod = read_pod(up.home.folder_of(PodId(str(resumed["id"]))))
    assert pod is not None
    return pod


async def test_a_killed_pod_comes_back_with_all_that_it_had_with_others(up: InProcessUp) -> None:
    async with open_agents(up, "phoenix", "friend", "boss") as [phoenix, friend, boss]:
        await acquaint(phoenix, friend, boss, channel="nest")
        await bind(phoenix, friend, "terminal:read")
        await phoenix.call("add_memory", prompt="before the fire")
        waits = await phoenix.call("wait_for", pod="boss", reason="the plan", timeout_s=0)
        await _kill(up, phoenix.pod)
        await friend.call("post_message", to="phoenix", text="are you there?")
        assert (await _session(up, phoenix.pod.session))["state"] == "suspended"

        resumed = await up.post(_path("phoenix"), {})

        new = _pod(up, resumed)
        assert (new.name, new.session, new.resumed_from) == ("phoenix", phoenix.pod.session, phoenix.pod.id)
        assert resumed["epoch"] == 2
        token = await up.token("pod", pod=new.id)
        async with connected(up.server.url, token) as http:
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
        shown = await _session(up, new.session)
        assert [pod["id"] for pod in cast(list[Json], shown["pods"])] == [phoenix.pod.id, new.id]
        assert (shown["state"], shown["held_by"], shown["epoch"]) == ("open", "phoenix", 2)
        await up.stop(new)


async def test_a_session_whose_pod_runs_is_held_and_given_up_only_when_it_is_taken_over(up: InProcessUp) -> None:
    pod = await up.start("cat", name="busy")
    refused = await up.http.post(_path(pod.session), json={})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "lease_held"
    assert "is held by busy" in refused.json()["error"]["message"]
    assert up.is_running(pod)

    resumed = await up.post(_path(pod.session), {"takeover": True})

    new = _pod(up, resumed)
    assert up.server.tower.pods[pod.id].over
    assert up.is_running(new)
    assert (await _session(up, pod.session))["epoch"] == 2
    of_it = [event for event in await up.events() if pod.session in str(event["data"])]
    kinds = [str(event["kind"]) for event in of_it if str(event["kind"]).startswith("session.")]
    assert kinds == ["session.opened", "session.refused", "session.taken_over"]
    await up.stop(new)


async def test_what_does_not_start_leaves_everything_as_it_was(up: InProcessUp, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    pod = await up.start("cat", name="homeless", cwd=folder)
    await up.stop(pod)
    folder.rmdir()
    before = await _session(up, pod.session)
    pods = {other.id for other in up.home.pods()}

    refused = await up.http.post(_path("homeless"), json={})

    assert refused.status_code in (400, 409), refused.text
    after = await _session(up, pod.session)
    same = ("state", "why", "held_by", "last_seq", "resumable")
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
    assert {other.id for other in up.home.pods()} == pods
    folder.mkdir()
    resumed = await up.post(_path("homeless"), {})
    await up.stop(_pod(up, resumed))


async def test_only_looking_starts_nothing_and_says_what_it_found(up: InProcessUp) -> None:
    pod = await up.start("cat", name="looked-at")
    await up.stop(pod)

    looked = await up.post(_path("looked-at"), {"check": True})

    assert looked["id"] is None
    assert [finding["kind"] for finding in cast(list[Json], looked["findings"])] == ["no_conversation"]
    assert (await _session(up, pod.session))["state"] == "suspended"


async def test_a_request_that_is_repeated_resumes_once(up: InProcessUp) -> None:
    pod = await up.start("cat", name="twice")
    await up.stop(pod)

    answers = await asyncio.gather(*(up.post(_path("twice"), {}, **{"Idempotency-Key": "the key"}) for _ in range(3)))

    assert len({str(answer["id"]) for answer in answers}) == 1
    await up.stop(_pod(up, answers[0]))


async def test_a_finished_session_comes_back_only_by_being_reopened(up: InProcessUp) -> None:
    pod = await up.start("cat", name="done")
    await up.stop(pod)
    assert (await up.post(f"/api/v1/sessions/{pod.session}/finish", {"reason": "merged"}))["state"] == "finished"

    refused = await up.http.post(_path("done"), json={"takeover": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_finished")

    resumed = await up.post(_path("done"), {"reopen": True})
    await up.stop(_pod(up, resumed))


async def test_who_has_no_pod_to_come_back_to_is_told_what_to_do(up: InProcessUp) -> None:
    async with open_agent(up, "agent", "podless") as agent:
        session = str((await agent.call("add_memory", prompt="hello"))["session_id"])

    refused = await up.http.post(_path(session), json={})
    assert refused.status_code == 400
    assert "never had a pod" in refused.json()["error"]["message"]
    missing = await up.http.post(_path("nowhere-at-all"), json={})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_such_session")


async def test_a_person_resumes_a_pod_over_mcp_and_an_agent_does_not(up: InProcessUp) -> None:
    pod = await up.start("cat", name="remote")
    await up.stop(pod)
    async with open_agent(up, "operator", "olga") as olga, open_agent(up, "agent", "andy") as andy:
        assert (await andy.refusal("resume_pod", pod="remote"))["code"] == "not_for_role"
        resumed = await olga.call("resume_pod", pod="remote", idempotency_key="k")
        assert await olga.call("resume_pod", pod="remote", idempotency_key="k") == resumed
        assert (await olga.refusal("resume_pod", pod="remote"))["code"] == "lease_held"
    new = _pod(up, resumed)
    assert up.is_running(new)
    await up.stop(new)


async def test_a_person_adds_a_memory_to_what_nobody_holds(up: InProcessUp) -> None:
    pod = await up.start("cat", name="noted")
    path = f"/api/v1/sessions/{pod.session}/memories"
    held = await up.http.post(path, json={"prompt": "psst"})
    assert (held.status_code, held.json()["error"]["code"]) == (409, "lease_held")
    await up.stop(pod)

    added = [await up.post(path, {"prompt": "look at the log"}, **{"Idempotency-Key": "k"}) for _ in range(2)]

    assert [answer["seq"] for answer in added] == [1, 1]
    found = cast(Json, await up.get("/api/v1/memories", query="log", session=pod.session))
    assert [memory["source"] for memory in cast(list[Json], found["memories"])] == ["person"]
