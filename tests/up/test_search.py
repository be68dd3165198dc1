"""Search, as pods come and go."""

from __future__ import annotations

from typing import cast

import pytest

from scrubjay.ids import PodId
from scrubjay.query import parse_query
from scrubjay.replay.search import SearchIndex
from scrubjay.tape.record import Json
from tests.support.conditions import until, until_asked
from tests.support.in_process_up import InProcessUp

pytestmark = pytest.mark.anyio


async def test_what_a_deleted_pod_has_shown_is_in_no_index_any_more(up: InProcessUp) -> None:
    pod = str((await up.post("/api/v1/pods", {"command": ["echo", "a heron"], "name": "heron"}))["id"])
    await until(lambda: up.server.tower.pods[PodId(pod)].report.complete, "it ended")
    [hit] = cast(list[Json], await up.get("/api/v1/search", q="heron", pod=pod))
    assert hit["text"] == "a heron"

    assert (await up.http.delete(f"/api/v1/pods/{pod}")).status_code == 200

    def is_forgotten() -> bool:
        with SearchIndex(up.home.search_path) as index:
            return not index.search(parse_query("heron"), tapes=[pod], limit=10)

    await until(is_forgotten, "nothing is found")


async def test_what_stands_on_the_screen_of_a_pod_that_shows_nothing_more_is_found(up: InProcessUp) -> None:
    pod = await up.start("sh", "-c", "stty raw; sleep 1; printf 'a kingfisher'; sleep 600", name="bird")
    await until(lambda: b"kingfisher" in b"".join(r.payload for r in pod.tape().records()), "it is shown")

    async def search() -> list[Json]:
        return cast(list[Json], await up.get("/api/v1/search", q="kingfisher", pod=pod.id))

    found = await until_asked(search, "it is found, though nothing on the tape follows it")

    assert [hit["text"] for hit in found if hit["kind"] == "shown"] == ["a kingfisher"]
    await up.stop(pod)
