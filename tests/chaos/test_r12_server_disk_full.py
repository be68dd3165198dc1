"""R12: on a full disk the server takes nothing and claims nothing; who is in stays in, reads and deletes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from scrubjay.cli.client import Client, ServerRefused
from scrubjay.errors import NotATape
from scrubjay.server.rest.recordings import TAPE_PORTION_BYTES
from scrubjay.tape.anchor import read_anchor, read_synced
from scrubjay.tape.raw_bytes import read_bytes
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Json
from scrubjay.tape.verify import verify
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member, open_fleet
from tests.support.ledger import tape_ledger
from tests.support.services import Service
from tests.support.small_disk import SmallDisk, mount_small_disk
from tests.support.tiers import sized

pytestmark = pytest.mark.needs("mount")

_BEAT = ("--long", "--rate", "2000", "--every-ms", "10")  # 200 kB/s
_SLOW_BEAT = ("--long", "--every-ms", "10")  # 20 kB/s


def _token(server: Service, role: str) -> Client:
    """Somebody who was given a token while there was room."""
    made = cast(Json, server.client.post("/api/v1/tokens", {"role": role, "name": role}))
    url = eventually(lambda: _url_of(server), "it says where it is")
    return Client(url, str(made["token"]), server.data / "server.sock")


def _url_of(server: Service) -> str | None:
    start = server.log.find("{")
    if start < 0:
        return None
    try:
        return str(json.JSONDecoder().raw_decode(server.log[start:])[0]["url"])
    except ValueError:
        return None


def _names(client: Client) -> set[str]:
    return {str(row["name"]) for row in cast(list[Json], client.get("/api/v1/pods"))}


def _assert_readable(client: Client, pod: str, shown: str) -> None:
    """Everything that only looks at a recording works."""
    screen = cast(Json, client.get(f"/api/v1/pods/{pod}/screen"))
    assert shown in json.dumps(screen)
    assert cast(Json, client.get(f"/api/v1/pods/{pod}/timeline"))["duration"] is not None
    before, _ = client.fetch(f"/api/v1/pods/{pod}/tape")
    after, tape = client.fetch(f"/api/v1/pods/{pod}/tape")
    first, last = (min(int(headers["Scrubjay-End"]), TAPE_PORTION_BYTES) for headers in (before, after))
    assert first <= len(tape) <= last  # the tape may grow meanwhile
    assert client.get(f"/api/v1/pods/{pod}/status/history")


class _Copies:
    """What a server has of the tapes of others."""

    def __init__(self, server: Service) -> None:
        self._folder = server.data / "tapes"

    def root(self, member: Member) -> Path:
        return self._folder / member.pod.id

    def end(self, member: Member) -> int:
        try:
            return Tape(self.root(member) / "tape").end
        except NotATape:
            return 0  # its first segment is being made

    def assert_whole_records(self, member: Member) -> None:
        """What can be read are whole records, byte for byte those of the original."""
        root = self.root(member)
        report = verify(Tape(root / "tape", member.pod.id), read_anchor(root, member.pod.id), live=True)
        assert report.verdict == "clean", report
        assert read_bytes(Tape(root / "tape"), 0, report.end) == read_bytes(member.pod.tape(), 0, report.end)

    def synced(self, member: Member) -> int:
        return read_synced(self.root(member), member.pod.id)


@pytest.fixture
def server_disk(tmp_path: Path) -> Generator[SmallDisk]:
    """Where a server that is started by the fleet below has its data."""
    with mount_small_disk(tmp_path / "server", size="24m") as disk:
        yield disk


@pytest.fixture
def fleet(tmp_path: Path, server_disk: SmallDisk) -> Generator[Fleet]:
    """A fleet on an ordinary disk, whose server has a small one."""
    with open_fleet(tmp_path / "data", tmp_path / "logs") as fleet:
        yield fleet
        server_disk.free()


def test_r12_a_server_without_space_acknowledges_nothing_serves_everybody_and_recovers_by_itself(
    fleet: Fleet, server_disk: SmallDisk, promised: Callable[[float], float]
) -> None:
    server, _ = fleet.server_and_runner()
    ended, *doomed = fleet.start_all(dict.fromkeys(("ended", *_doomed()), ("echo", "hello")))
    member = fleet.metronome("m", *_BEAT)
    copies = _Copies(server)
    operator, viewer = _token(server, "operator"), _token(server, "viewer")
    for one in (ended, *doomed):
        eventually(lambda: copies.end(one) == one.pod.tape().end > 0, "it is copied")  # noqa: B023
    eventually(lambda: copies.synced(member) > 100_000, "there is a copy")

    for gone in doomed:
        refused = server.log.count("tapes.unavailable")
        server_disk.fill()
        eventually(lambda: server.log.count("tapes.unavailable") > refused, "it is out of space")  # noqa: B023
        copied, progress = copies.end(member), member.progress
        eventually(lambda: member.progress > progress + 2000, "the agent goes on")  # noqa: B023
        copies.assert_whole_records(member)
        assert copies.end(member) - copied < 64 << 10
        assert _names(viewer) == _names(operator) == _names(server.client) >= {"ended", "m", gone.name}
        _assert_readable(viewer, "ended", "hello")
        _assert_readable(viewer, "m", "n=")
        assert {"ended", "m"} <= _listed(fleet, operator)
        _assert_link_or_refusal(operator)
        assert operator.delete(f"/api/v1/pods/{gone.name}") is not None
        assert gone.name not in _names(viewer)
        assert not copies.root(gone).exists()

        server_disk.free()
        reached = copies.end(member)
        eventually(lambda: copies.end(member) > reached + 100_000, "it continues", within_s=promised(5))  # noqa: B023

    fleet.finish(member)
    eventually(lambda: copies.end(member) == member.pod.tape().end, "the copy is complete")
    copies.assert_whole_records(member)
    ledger = tape_ledger(copies.root(member) / "tape")
    assert ledger.faults == (0, 0, 0)
    assert ledger.count == member.ledger().count
    assert "Traceback" not in server.log
    assert "Exception" not in server.log


def _listed(fleet: Fleet, client: Client) -> set[str]:
    """What ``ps`` lists, from another machine."""
    fleet.settings["SCRUBJAY_TOKEN"] = str(client.token)
    listed = fleet.cli("--server", str(client.url), "ps", "--all", "--json").stdout
    return {str(row["name"]) for row in json.loads(listed)}


def _doomed() -> list[str]:
    """The names of pods to be deleted, one each time that the disk is full."""
    return [f"doomed{number}" for number in range(sized(1, 2, 20))]


def _assert_link_or_refusal(client: Client) -> None:
    """A login link is a change: it is made, or refused with a reason a person can act on."""
    try:
        client.post("/api/v1/logins")
    except ServerRefused as error:
        _assert_refused_for_space(error)


def _refusal_of(client: Client) -> ServerRefused | None:
    """Why no token can be made; None if one was: there may be a little room left in a page."""
    try:
        client.post("/api/v1/tokens", {"role": "viewer", "name": "x" * 100})
    except ServerRefused as error:
        return error
    return None


def _assert_refused_for_space(refused: ServerRefused) -> None:
    assert (refused.status, refused.code) == (503, "catalog_unavailable")
    assert "full" in str(refused)
    assert refused.hint == "free some space; the catalog goes on by itself"


# A server that lives with its runner, so that the agents' disk is its own.


def _start(fleet: Fleet) -> tuple[Service, Member, Client]:
    """A server, a pod that goes on, one that has ended, and somebody with a token."""
    up = fleet.up()
    fleet.start_all(dict.fromkeys(("ended", "doomed"), ("echo", "hello")))
    member = fleet.metronome("m", *_SLOW_BEAT)
    operator = _token(up, "operator")
    expected = {"ended": "exited", "doomed": "exited", "m": "running"}
    eventually(lambda: up.processes() == expected, "all pods are in the fleet")
    return up, member, operator


def _assert_served(fleet: Fleet, up: Service, operator: Client) -> None:
    """Look at everything and delete a pod."""
    assert _names(operator) == _names(up.client) == {"ended", "doomed", "m"}
    _assert_readable(operator, "ended", "hello")
    _assert_readable(operator, "m", "n=")
    assert {"ended", "m"} <= _listed(fleet, operator)
    fleet.cli("rm", "doomed")
    assert "doomed" not in fleet.ps()


def _assert_recovered(up: Service, member: Member, operator: Client, *, within_s: float) -> None:
    """Without a restart agents continue, their state is known, and people can log in."""
    began, progress = time.monotonic(), member.progress
    eventually(lambda: member.progress > progress + 100, "the agent continues")
    eventually(lambda: up.processes() == {"ended": "exited", "m": "running"}, "that is known")
    assert cast(Json, operator.post("/api/v1/logins"))["url"]
    assert time.monotonic() - began <= within_s
    assert "Traceback" not in up.log
    assert "Exception" not in up.log


@contextmanager
def _fleet_on_small_disk(tmp_path: Path, *, size: str) -> Generator[tuple[Fleet, SmallDisk]]:
    with (
        mount_small_disk(tmp_path / "disk", size=size) as disk,
        open_fleet(disk.path / "data", tmp_path / "logs") as fleet,
    ):
        try:
            yield fleet, disk
        finally:
            disk.free()


def test_r12_with_its_own_disk_full_a_server_shows_the_pause_and_does_all_else(
    tmp_path: Path, promised: Callable[[float], float]
) -> None:
    with _fleet_on_small_disk(tmp_path, size="32m") as (fleet, disk):
        up, member, operator = _start(fleet)

        disk.fill()
        eventually(lambda: up.processes().get("m") == "paused", "the pause is shown", within_s=promised(2))
        _assert_served(fleet, up, operator)
        # There is room that was kept for changes of the fleet.
        eventually(lambda: _names(operator) == {"ended", "m"}, "the deletion is known")
        assert cast(Json, operator.post("/api/v1/logins"))["url"]
        disk.free()

        _assert_recovered(up, member, operator, within_s=promised(5))
        fleet.finish(member)
        assert member.ledger().faults == (0, 0, 0)


def test_r12_a_server_without_any_room_at_all_lets_in_who_has_a_token_reads_and_deletes(
    tmp_path: Path, promised: Callable[[float], float]
) -> None:
    with _fleet_on_small_disk(tmp_path, size="9m") as (fleet, disk):  # too small to keep room for the catalog
        up, member, operator = _start(fleet)

        disk.fill()
        refused = eventually(lambda: _refusal_of(operator), "nothing more is written")
        _assert_refused_for_space(refused)
        _assert_served(fleet, up, operator)
        disk.fill()
        up.kill()
        up.start()
        assert _names(up.client) >= {"ended", "m"}
        _assert_readable(up.client, "ended", "hello")
        disk.free()

        _assert_recovered(up, member, up.client, within_s=promised(5))  # on another port
        fleet.finish(member)
        assert member.ledger().faults == (0, 0, 0)
