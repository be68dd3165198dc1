"""R2: the server may be killed at any moment; nothing acknowledged is lost, and viewers are live again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from scrubjay.ids import PodId
from scrubjay.store.tapes import ReplicatedTapes
from scrubjay.tape.reader import Tape
from tests.support.conditions import eventually
from tests.support.fleet import Fleet
from tests.support.ledger import tape_ledger
from tests.support.services import Service, Viewer
from tests.support.tiers import sized

_BEAT = ("--rate", "200", "--every-ms", "10")
_VIEWERS = 5
_KILLS = sized(1, 3, 10)


def test_r2_viewers_of_a_killed_server_are_live_again_from_one_keyframe(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    up = fleet.up()
    member = fleet.metronome("m", *_BEAT)
    eventually(lambda: up.processes().get("m") == "running", "it is in the fleet")
    viewers = [Viewer(up.data / "server.sock", "m") for _ in range(_VIEWERS)]
    try:
        for viewer in viewers:
            eventually(lambda: viewer.keyframes and b"n=" in viewer.output, "it sees numbers")  # noqa: B023

        up.kill()
        up.start()
        back = time.monotonic()

        for viewer in viewers:
            left_s = promised(5) - (time.monotonic() - back)
            eventually(lambda: viewer.seen_at > back and len(viewer.keyframes) == 2, "it is live", within_s=left_s)  # noqa: B023
            progress = member.progress
            seen = f"n={progress + 10:08d}".encode()
            eventually(lambda: seen in bytes(viewer.output), "it sees what comes")  # noqa: B023
            assert len(viewer.keyframes) == 2
    finally:
        for viewer in viewers:
            viewer.close()
    fleet.finish(member)
    assert member.ledger().whole


def test_r2_a_server_with_copies_loses_nothing_it_acknowledged_and_gets_the_rest(fleet: Fleet) -> None:
    server, runner = fleet.server_and_runner()
    members = fleet.metronomes(["a", "b", "c"], *_BEAT)
    eventually(lambda: set(server.processes().values()) == {"running"}, "all are in the fleet")
    copies = {member.name: server.data / "tapes" / member.pod.id / "tape" for member in members}
    for member in members:
        eventually(lambda: _kept(server, member.pod.id), "there is a copy")  # noqa: B023

    for _ in range(_KILLS):
        kept = {member.name: _kept(server, member.pod.id) for member in members}
        server.kill()
        survived = ReplicatedTapes(server.data / "tapes")
        for member in members:
            assert survived.have(PodId(member.pod.id)).have >= kept[member.name]
            assert tape_ledger(copies[member.name]).whole
        survived.close()
        server.start()
        eventually(lambda: set(server.processes().values()) == {"running"}, "the runner is back")

    fleet.finish(*members)
    for member in members:
        end = member.pod.tape().end
        eventually(lambda: _copied(copies[member.name]) == end, "the copy is whole")  # noqa: B023
        ledger = tape_ledger(copies[member.name])
        assert ledger.whole
        assert ledger.count == member.ledger().count
    assert runner.log.count('"server.connected"') == 1 + _KILLS, runner.log


def _kept(server: Service, pod: str) -> int:
    """What the server would tell the runner that it has, synced."""
    tapes = ReplicatedTapes(server.data / "tapes")
    try:
        return tapes.have(PodId(pod)).kept
    finally:
        tapes.close()


def _copied(folder: Path) -> int:
    return Tape(folder).end
