"""R24, with a server: pods, viewers and listeners come and go and leave nothing; dead pods hold nobody up."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from websockets.asyncio.client import ClientConnection, unix_connect

from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.settings import Settings
from scrubjay.tape.record import Json
from tests.support.conditions import eventually, until
from tests.support.fleet import Fleet
from tests.support.in_process_up import open_in_process_up
from tests.support.processes import children_of, descriptors_of, kill, resident_kib, screen_workers_of, terminals_of
from tests.support.services import Service
from tests.support.tiers import ALONE, sized

_AT_ONCE = 4
_PODS = sized(5, 30, 1000)
_DEAD = 50 if ALONE else sized(10, 50, 50)
_ONCE = 4  # such as another connection to the catalog, or the second of two processes that draw recordings
_VISITORS = sized(20, 100, 100)  # viewers and listeners at once
_VISITS = sized(3, 3, 30)
_VISITS_FIRST = sized(3, 6, 6)  # until Python has looked for garbage, which it does when there is some
# What an allocator may keep, and the newest 4,096 changes of the fleet; a viewer that is not forgotten is 30 KiB.
_GROWTH_KIB = sized(4096, 4096, 16384)


def _footprint(up: Service) -> dict[str, int]:
    """What a server holds of the machine: descriptors of each kind, processes, terminals."""
    kinds = Counter(target.split(":")[0].split("[")[0] for target in descriptors_of(up.pid).values())
    held = {kind: kinds[kind] for kind in ("socket", "pipe", "anon_inode")}
    files = sum(kinds.values()) - sum(held.values())
    processes = len(children_of(up.pid)) + len(screen_workers_of(up.pid))
    return held | {"files": files, "processes": processes, "terminals": len(terminals_of(up.pid))}


def test_r24_pods_that_are_started_stopped_and_deleted_leave_a_server_as_it_was(fleet: Fleet) -> None:
    up = fleet.up()

    def live_and_die(number: int) -> None:
        client = up.client
        started = cast(Json, client.post("/api/v1/pods", {"command": ["cat"], "name": f"p{number}", "cwd": "/"}))
        pod = f"/api/v1/pods/{started['id']}"
        client.get(f"{pod}/screen")
        assert cast(Json, client.post(f"{pod}/stop", {"grace_s": 5}))["process"] == "exited"
        client.delete(pod)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(live_and_die, range(-2 * _AT_ONCE, 0)))  # whatever is made once and kept is there now
        before, resident = eventually(lambda: _settled(up), "it has settled")
        list(threads.map(live_and_die, range(_PODS)))

    eventually(lambda: _no_more(up, before), f"it holds {before} again")
    grown = resident_kib(up.pid) - resident
    print(f"before {_PODS} pods {before}, after {_footprint(up)}, memory {grown:+} KiB")
    assert up.pods() == {}
    assert grown <= _GROWTH_KIB
    fleet.eventually(lambda: _left(fleet) == [], "no process of a pod is left")
    assert [path.name for folder in ("pods", "staging") for path in (fleet.data / folder).iterdir()] == []


def _no_more(up: Service, before: dict[str, int]) -> bool:
    """Whether a server holds what it held, give or take what it opens when it is first needed and keeps."""
    return all(count <= before[what] + _ONCE for what, count in _footprint(up).items())


def _settled(up: Service) -> tuple[dict[str, int], int] | None:
    """What a server holds, once that does not change for a second."""
    before = _footprint(up)
    time.sleep(1)  # the second in which nothing changes
    return (before, resident_kib(up.pid)) if _footprint(up) == before else None


def _left(fleet: Fleet) -> list[int]:
    """Processes of the fleet besides its server."""
    return [pid for pid in fleet.processes() if pid not in {service.pid for service in fleet.services}]


def test_r24_a_server_that_finds_dead_pods_declares_them_lost_at_once(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        pods = list(threads.map(_start, [fleet] * _DEAD))
    for pod in pods:
        kill(int(str((pod.observe().live or {})["keeper_pid"])))
    fleet.eventually(lambda: not fleet.processes(), "nothing of the pods is left")
    assert sum(path.is_socket() for path in fleet.data.rglob("keeper.sock")) == _DEAD
    up = fleet.up()
    began = time.monotonic()

    all_are_lost = lambda: list(up.processes().values()) == ["lost"] * _DEAD  # noqa: E731
    eventually(all_are_lost, "all are known to be lost", within_s=promised(2))

    print(f"{_DEAD} dead pods known {time.monotonic() - began:.2f} s after it answered")
    assert {cast(Json, row["status"])["reason"] for row in up.pods().values()} == {"keeper killed"}


def _start(fleet: Fleet) -> Pod:
    return start_pod(
        Home(fleet.data), StartRequest(("cat",), Path("/"), 80, 24), Settings(data=fleet.data), fleet.environ
    )


# Viewers of pods and listeners to the fleet.


async def _visit(socket_path: Path, pod: str) -> None:
    """Several come, half of them to a pod; half of each leave without a word."""
    folder = os.open(socket_path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        path = f"/proc/self/fd/{folder}/{socket_path.name}"
        addresses = [f"ws://localhost/api/v1/pods/{pod}/live", "ws://localhost/api/v1/fleet?after=0"] * (_VISITORS // 2)
        visitors = await asyncio.gather(*(unix_connect(path, address, compression=None) for address in addresses))
    finally:
        os.close(folder)
    await asyncio.gather(*(visitor.recv() for visitor in visitors))
    await asyncio.gather(*(_leave(visitor, politely=number % 4 < 2) for number, visitor in enumerate(visitors)))


async def _leave(visitor: ClientConnection, *, politely: bool) -> None:
    if not politely:
        visitor.transport.abort()
    await visitor.close()


def test_r24_viewers_and_listeners_that_come_and_go_leave_a_server_as_it_was(fleet: Fleet) -> None:
    up = fleet.up()
    fleet.start("quiet", "cat")
    eventually(lambda: up.processes().get("quiet") == "running", "it is in the fleet")
    for _ in range(_VISITS_FIRST):
        asyncio.run(_visit(fleet.data / "server.sock", "quiet"))
    before, resident = eventually(lambda: _settled(up), "it has settled")

    for _ in range(_VISITS):
        asyncio.run(_visit(fleet.data / "server.sock", "quiet"))

    eventually(lambda: _no_more(up, before), f"it holds {before} again")
    grown = resident_kib(up.pid) - resident
    print(f"before {_VISITS * _VISITORS} viewers {before}, after {_footprint(up)}, memory {grown:+} KiB")
    assert up.pods()["quiet"]["viewers"] == 0
    assert grown <= _GROWTH_KIB


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def frozen() -> Generator[None]:
    """Let the collector pass over what other tests have left, which is most of what it would look at."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.anyio
@pytest.mark.usefixtures("frozen")
async def test_r24_viewers_and_listeners_that_come_and_go_leave_no_task_and_nothing_that_waits(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path) as up:
        await up.start("cat", name="quiet")
        await _visit(tmp_path / "server.sock", "quiet")
        before = await until(_Settling(), "it settles")

        await _visit(tmp_path / "server.sock", "quiet")

        after = await until(_Settling(), "it settles")
        assert before is not None
        assert after is not None
        assert after.tasks <= before.tasks + 3  # those that come and go by themselves
        assert after.futures <= before.futures + 10


@dataclass(frozen=True, slots=True)
class _Count:
    tasks: int
    futures: int


class _Settling:
    """Counts what there is on the event loop, until that stays the same for a while."""

    def __init__(self) -> None:
        self._counts: list[_Count] = []

    def __call__(self) -> _Count | None:
        gc.collect()
        futures = sum(isinstance(found, asyncio.Future) for found in gc.get_objects())
        self._counts.append(_Count(len(asyncio.all_tasks()), futures))
        return self._counts[-1] if self._counts[-10:] == [self._counts[-1]] * 10 else None
