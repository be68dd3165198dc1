"""The API with real pods behind it."""

from __future__ import annotations

import asyncio
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.tape.record import Json
from tests.support.conditions import until, until_asked
from tests.support.in_process_up import InProcessUp

pytestmark = pytest.mark.anyio


async def _error(up: InProcessUp, method: str, path: str, body: Json | None = None) -> tuple[int, str, str]:
    response = await up.http.request(method, path, json=body)
    error = response.json()["error"]
    return response.status_code, error["code"], error["message"]


async def test_a_pod_is_started_typed_into_stopped_and_deleted(up: InProcessUp) -> None:
    started = await up.post("/api/v1/pods", {"command": ["cat"], "name": "cat", "cols": 100, "rows": 30})
    pod = str(started["id"])
    await up.post(f"/api/v1/pods/{pod}/input", {"text": "meow", "enter": True})
    await _until_shown(up, pod, "meow\nmeow")
    row = cast(Json, await up.get("/api/v1/pods/cat"))
    assert (row["id"], row["cols"], row["rows"], row["argv"]) == (pod, 100, 30, ["cat"])
    assert (await _error(up, "DELETE", f"/api/v1/pods/{pod}"))[:2] == (409, "pod_running")

    ended = await up.post(f"/api/v1/pods/{pod}/stop", {})
    assert ended == {"process": "exited", "exit_status": 143}
    assert (await _error(up, "POST", f"/api/v1/pods/{pod}/input", {"text": "x"}))[:2] == (409, "pod_not_running")

    assert (await up.http.delete(f"/api/v1/pods/{pod}")).status_code == 200
    assert (await _error(up, "GET", f"/api/v1/pods/{pod}"))[:2] == (404, "no_such_pod")
    assert not (up.settings.data / "pods" / pod).exists()
    kinds = [str(event["kind"]) for event in await _events_of(up, pod)]
    assert kinds[-4:] == ["pod.exited", "session.suspended", "token.revoked", "pod.removed"]


async def _events_of(up: InProcessUp, pod: str) -> list[Json]:
    return [event for event in await up.events() if event["pod"] == pod]


async def _until_shown(up: InProcessUp, pod: str, text: str) -> None:
    async def is_shown() -> bool:
        return text in (await up.http.get(f"/api/v1/pods/{pod}/screen", params={"format": "text"})).text

    await until_asked(is_shown, f"it shows {text}")


async def test_words_and_paths_that_are_not_utf_8_are_shown_with_escapes(up: InProcessUp, tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    pod = await up.start("bash", "-c", "sleep 100", "\udcff\N{SNOWMAN}", name="odd", cwd=folder)

    row = next(row for row in cast(list[Json], await up.get("/api/v1/pods")) if row["name"] == "odd")
    alone = cast(Json, await up.get(f"/api/v1/pods/{pod.id}"))

    assert cast(list[str], row["argv"])[-1] == "\\xff\N{SNOWMAN}"
    assert row["cwd"] == f"{tmp_path}/caf\\xe9"
    assert (alone["argv"], alone["cwd"]) == (row["argv"], row["cwd"])
    assert await up.events(pod)


async def test_the_past_can_be_asked_for(up: InProcessUp) -> None:
    before_us = up.server.tower.clock.wall_us()
    pod = str((await up.post("/api/v1/pods", {"command": ["sleep", "100"], "name": "past"}))["id"])
    while_us = up.server.tower.clock.wall_us()
    await up.post(f"/api/v1/pods/{pod}/stop", {"grace_s": 0})

    names = {row["name"] for row in cast(list[Json], await up.get("/api/v1/pods", at=before_us))}
    assert "past" not in names
    assert (await _error(up, "GET", f"/api/v1/pods/{pod}?at={before_us}"))[0] == 404
    then = cast(Json, await up.get(f"/api/v1/pods/{pod}/status", at=while_us))
    now = cast(Json, await up.get(f"/api/v1/pods/{pod}/status"))
    assert (then["process"], now["process"], now["exit_status"]) == ("running", "exited", 143)
    history = cast(list[Json], await up.get(f"/api/v1/pods/{pod}/status/history"))
    assert [status["process"] for status in history][-2:] == ["running", "exited"]
    assert all(one["until_us"] == other["since_us"] for one, other in pairwise(history))


async def test_the_same_key_starts_one_pod_and_types_once(up: InProcessUp) -> None:
    body: Json = {"command": ["cat"], "name": "once"}
    answers = await asyncio.gather(*(up.post("/api/v1/pods", body, **{"Idempotency-Key": "start-1"}) for _ in range(5)))
    assert len({str(answer["id"]) for answer in answers}) == 1
    pod = str(answers[0]["id"])
    typed = await asyncio.gather(
        *(up.post(f"/api/v1/pods/{pod}/input", {"text": "once\r"}, **{"Idempotency-Key": "type-1"}) for _ in range(5))
    )
    assert len({str(answer) for answer in typed}) == 1
    await _until_shown(up, pod, "once\nonce")
    screen = (await up.http.get(f"/api/v1/pods/{pod}/screen", params={"format": "text"})).text
    assert screen.count("once") == 2  # as it was typed, and as cat printed it


async def test_a_key_is_of_one_request_and_not_of_another(up: InProcessUp) -> None:
    key = {"Idempotency-Key": "1"}
    pod = str((await up.post("/api/v1/pods", {"command": ["cat"], "name": "keyed"}, **key))["id"])
    other = str((await up.post("/api/v1/pods", {"command": ["cat"], "name": "other"}))["id"])

    for one in (pod, other):
        await up.post(f"/api/v1/pods/{one}/input", {"text": "typed\r"}, **key)

    for one in (pod, other):
        await _until_shown(up, one, "typed\ntyped")


async def test_a_pod_gets_a_worktree_of_its_own(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    command = ["bash", "-c", "echo changed >> readme; echo new > file; pwd; git branch --show-current; sleep 100"]
    started = await up.post("/api/v1/pods", {"command": command, "name": "tree", "repository": str(repository)})
    row = cast(Json, await up.get(f"/api/v1/pods/{started['id']}"))
    assert row["branch"] == "scrubjay/tree"
    await _until_shown(up, str(row["id"]), "scrubjay/tree")

    [tree] = cast(list[Json], await up.get("/api/v1/worktrees"))
    assert (tree["name"], tree["branch"], tree["unstaged"], tree["untracked"]) == ("tree", "scrubjay/tree", 1, 1)
    diff = cast(Json, await up.get("/api/v1/worktrees/tree/diff"))
    assert (diff["insertions"], diff["deletions"], diff["untracked"]) == (2, 0, ["file"])
    assert "+changed" in (await up.http.get("/api/v1/worktrees/tree/patch")).text
    assert (await _error(up, "DELETE", "/api/v1/worktrees/tree"))[:2] == (409, "pod_running")

    await up.post(f"/api/v1/pods/{row['id']}/stop", {"grace_s": 0})
    assert (await _error(up, "DELETE", "/api/v1/worktrees/tree"))[:2] == (409, "worktree_dirty")
    assert (await up.http.delete("/api/v1/worktrees/tree", params={"force": "true"})).status_code == 200
    assert await up.get("/api/v1/worktrees") == []
    assert (repository / "readme").read_text() == "hello\n"


async def test_a_worktree_is_kept_from_others_for_as_long_as_its_pod_runs(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    body: Json = {"command": ["sleep", "100"], "name": "kept", "repository": str(repository)}

    def is_locked() -> bool:
        words = ["git", "worktree", "list", "--porcelain"]
        return "locked" in subprocess.run(words, cwd=repository, check=True, capture_output=True, text=True).stdout

    pod = (await up.post("/api/v1/pods", body))["id"]
    assert is_locked()

    await up.post(f"/api/v1/pods/{pod}/stop", {"grace_s": 0})
    await until(lambda: not is_locked(), "others may have it")
    assert (await up.http.delete("/api/v1/worktrees/kept")).status_code == 200


def _make_repository(path: Path) -> Path:
    path.mkdir()
    (path / "readme").write_text("hello\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *words], cwd=path, check=True)
    return path


async def test_a_start_that_fails_leaves_nothing(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    before = {pod.id for pod in Home(up.settings.data).pods()}

    status, code, message = await _error(
        up, "POST", "/api/v1/pods", {"command": ["/no/such"], "name": "fails", "repository": str(repository)}
    )

    assert (status, code) == (400, "start_failed")
    assert "/no/such" in message
    assert {pod.id for pod in Home(up.settings.data).pods()} == before
    trees = cast(list[Json], await up.get("/api/v1/worktrees"))
    assert "fails" not in {tree["name"] for tree in trees}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "nothing to run"),
        ({"agent": "hal"}, "no agent 'hal'"),
        ({"command": ["cat"], "name": "../x"}, "cannot be a pod's name"),
        ({"command": ["cat"], "cols": 1}, "too small"),
        ({"command": ["cat"], "branch": "b"}, "no repository"),
        ({"command": ["cat"], "repository": "/no/such/place"}, "/no/such/place"),
        ({"command": ["cat"], "environment": {"A=B": "x"}}, "environment variable"),
        ({"command": ["cat"], "session": "nope"}, "is not a session id"),
        ({"command": "cat"}, "command"),
        ({"command": ["cat"], "surprise": 1}, "surprise"),
    ],
)
async def test_a_bad_start_is_refused_with_what_is_wrong(up: InProcessUp, body: Json, said: str) -> None:
    status, _, message = await _error(up, "POST", "/api/v1/pods", body)

    assert status == 400
    assert said in message


async def test_the_tape_comes_byte_for_byte_in_portions(up: InProcessUp) -> None:
    pod = str((await up.post("/api/v1/pods", {"command": ["seq", "1", "20000"], "name": "bytes"}))["id"])
    folder = up.settings.data / "pods" / pod
    await until(lambda: (folder / "end.json").exists(), "it ended")
    data = b""
    while True:
        response = await up.http.get(f"/api/v1/pods/{pod}/tape", params={"offset": len(data), "limit": 40_000})
        data += response.content
        if len(data) == int(response.headers["scrubjay-end"]) and response.headers["scrubjay-complete"] == "true":
            break

    tape = Home(up.settings.data).find(pod).tape()
    assert len(data) == tape.end
    assert b"".join(record.payload for record in tape.records())[:50] in data or b"20000" in data


async def test_screens_come_in_every_format_and_at_any_instant(up: InProcessUp) -> None:
    command = ["bash", "-c", "printf '\\033[31mred\\033[0m\\n'; sleep 0.4; echo later; sleep 100"]
    pod = str((await up.post("/api/v1/pods", {"command": command, "name": "screens"}))["id"])
    await _until_shown(up, pod, "later")

    async def screen(**query: str) -> str:
        response = await up.http.get(f"/api/v1/pods/{pod}/screen", params=query)
        assert response.status_code == 200
        return response.text

    assert "later" not in await screen(format="text", at="0.2s")
    assert "\x1b[31mred" in (await screen(format="ansi")).replace("\x1b[0;31m", "\x1b[31m")
    assert "<!doctype html>" in await screen(format="html")
    assert "\x1bc" in await screen(format="vt")
    parsed = cast(Json, await up.get(f"/api/v1/pods/{pod}/screen"))
    assert cast(list[Json], parsed["lines"])[0]["text"] == "red"
    assert (await _error(up, "GET", f"/api/v1/pods/{pod}/screen?at=never"))[:2] == (400, "bad_instant")


async def test_what_was_shown_is_found(up: InProcessUp) -> None:
    pod = str((await up.post("/api/v1/pods", {"command": ["echo", "a zebra crossing"], "name": "zebra"}))["id"])
    await until(lambda: up.server.tower.pods[PodId(pod)].over, "it ended")

    [hit] = cast(list[Json], await up.get("/api/v1/search", q="zebra"))

    assert (hit["pod"], hit["name"], hit["text"]) == (pod, "zebra", "a zebra crossing")
    screen = await up.http.get(f"/api/v1/pods/{pod}/screen", params={"format": "text", "at": f"@{hit['offset']}"})
    assert "zebra" in screen.text
    assert await up.get("/api/v1/search", q="zebra", pod="screens") == []


async def test_the_timeline_has_the_marks(up: InProcessUp) -> None:
    pod = str((await up.post("/api/v1/pods", {"command": ["cat"], "name": "line"}))["id"])
    await up.post(f"/api/v1/pods/{pod}/mark", {"label": "here"})

    line = cast(Json, await up.get(f"/api/v1/pods/{pod}/timeline", parts=10))

    assert len(cast(list[float], line["density"])) == 10
    assert [mark["label"] for mark in cast(list[Json], line["marks"])] == ["here"]


async def test_openapi_describes_every_route_and_metrics_count(up: InProcessUp) -> None:
    described = cast(Json, await up.get("/api/v1/openapi.json"))
    paths = cast(Json, described["paths"])
    assert "/api/v1/pods/{pod}/screen" in paths
    assert len(paths) >= 20
    metrics = (await up.http.get("/metrics")).text
    assert "scrubjay_runners 1.0" in metrics
    assert 'scrubjay_pods{process="running"}' in metrics
