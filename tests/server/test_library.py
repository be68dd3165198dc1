"""The search index beside everything else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from shutil import rmtree

import pytest

from scrubjay.ids import new_pod_id
from scrubjay.query import parse_query
from scrubjay.replay.search import SearchIndex
from scrubjay.server.library import Library, Shelf
from tests.support.conditions import until
from tests.support.recordings import head, output
from tests.support.tapes import make_tape

pytestmark = pytest.mark.anyio


async def test_a_tape_that_is_deleted_while_it_is_indexed_is_forgotten_too(tmp_path: Path) -> None:
    pod, path = new_pod_id(), tmp_path / "search.sqlite"
    tape = make_tape(tmp_path / "pod", [head(80, 24), output(10, b"a heron\r\n")], pod)
    library = Library(path)

    keeping = asyncio.create_task(library.keep_up([Shelf(pod, tape.open(), 1, growing=False)]))
    await asyncio.sleep(0)
    library.forget(pod)
    await keeping

    def is_forgotten() -> bool:
        with SearchIndex(path) as index:
            return not index.progress(pod).offset and not index.search(parse_query("heron"), limit=10)

    assert path.exists()
    await until(is_forgotten, "nothing is found")
    assert not library.is_finished(pod)
    library.close()


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
async def test_a_tape_that_is_being_deleted_keeps_no_other_from_being_indexed(tmp_path: Path, left: str) -> None:
    library, stays = Library(tmp_path / "search.sqlite"), new_pod_id()
    shelves: list[Shelf] = []
    for pod in (new_pod_id(), stays):
        tape = make_tape(tmp_path / pod, [head(80, 24), output(10, b"a heron\r\n")], pod)
        shelves.append(Shelf(pod, tape.open(), 1, growing=False))
    rmtree(shelves[0].tape.folder)
    if left == "an empty folder":
        shelves[0].tape.folder.mkdir()

    await library.keep_up(shelves)

    assert [library.is_finished(shelf.pod) for shelf in shelves] == [False, True]
    library.close()
