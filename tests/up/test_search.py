"""Search, as pods come and go."""

from __future__ import annotations

import time
from typing import cast

import pytest

from chaos.machine import until
from scrubjay.ids import PodId
from scrubjay.query import parse_query
from scrubjay.replay.search import SearchIndex
from scrubjay.tape.record import Json
from up.machine import Machine

pytestmark = pytest.mark.anyio


async def test_what_a_deleted_pod_has_shown_is_in_no_index_any_more(machine: Machine) -> None:
    pod = str((await machine.post("/api/v1/pods", {"command": ["echo", "a heron"], "name": "heron"}))["id"])
    await until(lambda: machine.server.tower.pods[PodId(pod)].report.complete, "it ended")
    [hit] = cast(list[Json], await machine.get("/api/v1/search", q="heron", pod=pod))
    assert hit["text"] == "a heron"

    assert (await machine.http.delete(f"/api/v1/pods/{pod}")).status_code == 200

    def is_forgotten() -> bool:
        with SearchIndex(machine.home.search_path) as index:
            return not index.search(parse_query("heron"), tapes=[pod], limit=10)

    await until(is_forgotten, "nothing is found")


async def test_what_stands_on_the_screen_of_a_pod_that_shows_nothing_more_is_found(machine: Machine) -> None:
    pod = await machine.start("sh", "-c", "stty raw; sleep 1; printf 'a kingfisher'; sleep 600", name="bird")
    await until(lambda: b"kingfisher" in b"".join(r.payload for r in pod.tape().records()), "it is shown")

    deadline = time.monotonic() + 10
    while not (found := cast(list[Json], await machine.get("/api/v1/search", q="kingfisher", pod=pod.id))):
        assert time.monotonic() < deadline, "nothing on the tape follows it"

    assert [hit["text"] for hit in found if hit["kind"] == "shown"] == ["a kingfisher"]
    await machine.stop(pod)
