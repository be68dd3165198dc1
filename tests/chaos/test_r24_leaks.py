"""R24: pods come and go and leave nothing; dead ones hold nobody up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scrubjay.errors import KeeperGone
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.settings import Settings
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet
from tests.support.processes import children_of, descriptors_of, kill, sockets_of, terminals_of, unix_sockets
from tests.support.tiers import ALONE, sized

_AT_ONCE = 4
_DEAD = 50 if ALONE else sized(10, 50, 50)


def _start(fleet: Fleet) -> Pod:
    """Start a pod from this process, which lives on as a server would."""
    request = StartRequest(("cat",), Path("/"), 80, 24)
    settings = Settings(data=fleet.data)
    return start_pod(Home(fleet.data), request, settings, fleet.environ)


def _stop(pod: Pod) -> None:
    with pod.connect() as keeper:
        keeper.send({"do": "stop", "author": "test", "grace_ms": 5000})
        keeper.socket.settimeout(DEADLINE_S)
        try:
            while True:
                keeper.receive()
        except KeeperGone:
            eventually(lambda: not pod.alive, "the keeper has ended")


def test_r24_starting_and_stopping_pods_leaves_nothing_behind(fleet: Fleet) -> None:
    pods, keepers, sockets, terminals = sized(10, 100, 1000), set[int](), set[str](), set[int]()

    def start_and_stop(_: int) -> None:
        pod = _start(fleet)
        status = pod.observe().live
        assert status is not None
        keeper_pid = int(str(status["keeper_pid"]))
        keepers.add(keeper_pid)
        sockets.update(sockets_of(keeper_pid))
        terminals.update(terminals_of(keeper_pid))
        _stop(pod)

    start_and_stop(-1)  # whatever is opened once and kept is open now
    descriptors, children = descriptors_of(os.getpid()), children_of(os.getpid())
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(start_and_stop, range(pods)))

    assert len(keepers) == pods + 1
    fleet.eventually(
        lambda: not fleet.processes(), "no process of the pods is left, nor a sealer", within_s=DEADLINE_S + pods
    )
    eventually(lambda: children_of(os.getpid()) == children, "no child is left, not even a zombie")
    assert descriptors_of(os.getpid()).keys() == descriptors.keys()
    eventually(lambda: not sockets & unix_sockets(), "their sockets are gone")
    assert terminals_of(os.getpid()) == set()
    assert {path.name for path in fleet.data.rglob("*") if path.is_socket() or path.name == "reserve"} == set()
    assert {pod.observe().state for pod in Home(fleet.data).pods()} == {"exited"}


def test_r24_a_pod_can_be_deleted_while_its_sealer_is_at_work(fleet: Fleet) -> None:
    home = Home(fleet.data)
    for _ in range(sized(1, 4, 100)):
        pod = _start(fleet)
        _stop(pod)
        with ThreadPoolExecutor(1) as sealer:
            adding = sealer.submit(_add_files, pod.folder)
            eventually(lambda: len(list(pod.folder.iterdir())) > 20, "files are added")  # noqa: B023
            home.remove(pod)
            adding.result()

    assert home.pods() == []
    fleet.eventually(lambda: not fleet.processes(), "nothing of the pods is left")
    assert [path for path in fleet.data.rglob("*") if path.name not in ("lock", "pods", "staging")] == []


def _add_files(folder: Path) -> None:
    """Do what a sealer does, more often, until the folder is gone."""
    for number in range(100_000):
        try:
            (folder / f"seals{number}").touch()
        except FileNotFoundError:
            return


def test_r24_a_directory_full_of_dead_keepers_is_listed_at_once(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        pods = list(threads.map(_start, [fleet] * _DEAD))
    statuses = [pod.observe().live or {} for pod in pods]
    for status in statuses:
        kill(int(str(status["keeper_pid"])))
    fleet.eventually(lambda: not fleet.processes(), "nothing of the pods is left")
    stale = [path for path in fleet.data.rglob("keeper.sock") if path.is_socket()]

    began = time.monotonic()
    rows = fleet.ps()
    took_s = time.monotonic() - began

    assert len(stale) == len(rows) == _DEAD
    assert {row["description"] for row in rows.values()} == {"lost: keeper killed"}
    assert took_s <= promised(2)
