"""R2: the server may be killed at any moment; nothing acknowledged is lost, and viewers are live again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from websockets.sync.client import unix_connect

from chaos.cluster import Service, Viewer
from chaos.fleet import Fleet
from chaos.ledger import tape_ledger
from chaos.machine import eventually
from scrubjay.ids import PodId
from scrubjay.store.tapes import ReplicatedTapes
from scrubjay.tape.reader import Tape
from scrubjay.wire.messages import (
    PROTOCOL,
    Hello,
    Offer,
    PodGone,
    PodReport,
    Roster,
    Welcome,
    decode_from_server,
    encode,
)

_BEAT = ("--rate", "200", "--every-ms", "10")
_VIEWERS = 5


@pytest.mark.timeout(120)
def test_r2_viewers_of_a_killed_server_are_live_again_from_one_keyframe(fleet: Fleet) -> None:
    up = fleet.up()
    member = fleet.metronome("m", *_BEAT)
    eventually(lambda: up.processes().get("m") == "running", "it is in the fleet", within_s=20)
    viewers = [Viewer(up.data / "server.sock", "m") for _ in range(_VIEWERS)]
    try:
        for viewer in viewers:
            eventually(lambda: viewer.keyframes and b"n=" in viewer.output, "it sees numbers", within_s=10)  # noqa: B023

        up.kill()
        up.start()
        back = time.monotonic()

        for viewer in viewers:
            eventually(lambda: viewer.seen_at > back and len(viewer.keyframes) == 2, "it is live", within_s=5)  # noqa: B023
            progress = member.progress
            seen = f"n={progress + 10:08d}".encode()
            eventually(lambda: seen in bytes(viewer.output), "it sees what comes", within_s=5)  # noqa: B023
            assert len(viewer.keyframes) == 2
    finally:
        for viewer in viewers:
            viewer.close()
    fleet.finish(member)
    assert member.ledger().whole


@pytest.mark.timeout(180)
def test_r2_a_server_with_copies_loses_nothing_it_acknowledged_and_gets_the_rest(fleet: Fleet) -> None:
    server, runner = fleet.server_and_runner()
    members = fleet.metronomes(["a", "b", "c"], *_BEAT)
    eventually(lambda: set(server.processes().values()) == {"running"}, "all are in the fleet", within_s=20)
    copies = {member.name: server.data / "tapes" / member.pod.id / "tape" for member in members}
    for member in members:
        eventually(copies[member.name].is_dir, "there is a copy", within_s=10)

    for _ in range(3):
        kept = {member.name: _kept(server, member.pod.id) for member in members}
        server.kill()
        survived = ReplicatedTapes(server.data / "tapes")
        for member in members:
            assert survived.have(PodId(member.pod.id)).have >= kept[member.name]
            assert tape_ledger(copies[member.name]).whole
        survived.close()
        server.start()
        eventually(lambda: set(server.processes().values()) == {"running"}, "the runner is back", within_s=20)

    fleet.finish(*members)
    for member in members:
        end = member.pod.tape().end
        eventually(lambda: _copied(copies[member.name]) == end, "the copy is whole", within_s=10)  # noqa: B023
        ledger = tape_ledger(copies[member.name])
        assert ledger.whole
        assert ledger.count == member.ledger().count
    assert runner.log.count('"server.connected"') == 4, runner.log


def _kept(server: Service, pod: str) -> int:
    """What the server would tell the runner that it has, synced."""
    tapes = ReplicatedTapes(server.data / "tapes")
    try:
        return tapes.have(PodId(pod)).kept
    finally:
        tapes.close()


def _copied(folder: Path) -> int:
    return Tape(folder).end


@pytest.mark.timeout(120)
def test_a_runner_cannot_speak_of_the_pods_of_another(fleet: Fleet) -> None:
    server, _ = fleet.server_and_runner()
    member = fleet.metronome("m", *_BEAT)
    eventually(lambda: server.processes().get("m") == "running", "it is in the fleet", within_s=20)
    made = server.client.post("/api/v1/tokens", {"role": "runner", "name": "thief"})
    assert isinstance(made, dict)
    report = PodReport(
        id=member.pod.id,
        name="stolen",
        session=member.pod.session,
        argv=("x",),
        cwd="/",
        cols=80,
        rows=24,
        created_us=1,
        process="lost",
        since_us=1,
    )
    path = server.data / "server.sock"
    headers = {"Authorization": f"Bearer {made['token']}"}  # pyright: ignore[reportUnknownVariableType]
    with unix_connect(str(path), "ws://localhost/api/v1/runner", additional_headers=headers, compression=None) as thief:
        thief.send(encode(Hello(protocol=PROTOCOL, version="1", runner="z" * 26, name="thief", host="thief")))
        thief.send(encode(Roster(pods=(report,))))
        thief.send(encode(PodGone(pod=member.pod.id)))
        thief.send(encode(Offer(pod=member.pod.id)))
        assert isinstance(decode_from_server(thief.recv(5)), Welcome)  # pyright: ignore[reportArgumentType]
        eventually(lambda: server.log.count("foreign_pod") == 3, "it was noticed", within_s=5)

    assert server.processes() == {"m": "running"}
    fleet.finish(member)
