"""R16: a link that flaps, or is dead without saying so, loses nothing, doubles nothing and wastes little."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrubjay.cli.client import Client, ServerRefused
from scrubjay.errors import NotATape
from scrubjay.tape.reader import Tape
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.ledger import tape_ledger
from tests.support.proxy import Passage, Proxy, connections_at, connections_to, open_proxy
from tests.support.services import Service, Viewer
from tests.support.tiers import sized

_UP_S, _DOWN_S = sized(1, 1, 2), sized(200, 1000, 2000) / 1000
_FLAPS = sized(3, 5, 150)
_LOSS = 0.05  # of the moments in which the link is up
_MOMENT_S = 0.2
_NOTICED_S = 20
_SHORT_SILENCE_S = 2.0
_LINES_PER_S = 1000  # of 100 bytes
_RATIO = 1.5
_THROUGH_BYTES = 1000
_GREETING_BYTES = 4096  # a handshake, hello, roster and what is known of each tape, for each connection


@dataclass(frozen=True, slots=True)
class _Linked:
    """A server and a runner with a link in between that can be broken."""

    fleet: Fleet
    proxy: Proxy
    server: Service
    runner: Service
    members: list[Member]

    @property
    def port(self) -> int:
        """Where the server is."""
        assert self.proxy.target is not None
        return self.proxy.target

    def copy(self, member: Member) -> Path:
        return self.server.data / "tapes" / member.pod.id / "tape"

    def is_copied(self, member: Member) -> bool:
        """Whether the server has all of a pod that has ended."""
        try:
            return Tape(self.copy(member)).end == member.pod.tape().end
        except NotATape:  # nothing of it has come yet
            return False

    def is_linked(self) -> bool:
        return list(self.server.processes().values()) == ["running"] * len(self.members)

    def lost(self) -> int:
        """How often the runner has said that it was not connected."""
        return self.runner.log.count('"server.lost"')

    def through(self) -> list[Passage]:
        """The connections that more than a handshake went over."""
        return [passage for passage in list(self.proxy.passages) if passage.sent_bytes > _THROUGH_BYTES]

    def kinds(self) -> list[str]:
        """What the fleet has noted of its runner, in order."""
        kinds = [str(event["kind"]) for event in self.server.events()]
        return [kind for kind in kinds if kind.startswith("runner.")]

    def assert_one_uplink(self) -> None:
        assert connections_to(self.runner.pid, self.proxy.port) <= 1

    def assert_copied(self) -> None:
        """End all pods; then the copies hold every number once and all that the originals do."""
        self.fleet.finish(*self.members)
        for member in self.members:
            eventually(lambda: self.is_copied(member), f"the copy of {member.name} is whole")  # noqa: B023
            ledger = tape_ledger(self.copy(member))
            assert ledger.faults == (0, 0, 0)
            assert ledger.count == member.ledger().count > 0


@contextmanager
def _linked(fleet: Fleet, names: Iterable[str]) -> Generator[_Linked]:
    with open_proxy() as proxy:
        server, runner = fleet.server_and_runner(through=proxy.port)
        address = eventually(lambda: re.search(r'"url": ".*:([0-9]+)"', server.log), "it says where")
        proxy.target = int(address[1])
        members = fleet.metronomes(names, "--long", "--rate", str(_LINES_PER_S), "--every-ms", "10")
        linked = _Linked(fleet, proxy, server, runner, members)
        eventually(linked.is_linked, "all pods are in the fleet")
        yield linked


@pytest.fixture
def linked(fleet: Fleet) -> Generator[_Linked]:
    with _linked(fleet, "m") as linked:
        yield linked


@pytest.fixture
def busily_linked(fleet: Fleet) -> Generator[_Linked]:
    with _linked(fleet, "abcd") as linked:
        yield linked


def test_r16_a_flapping_link_loses_nothing_doubles_nothing_and_wastes_little(
    busily_linked: _Linked, promised: Callable[[float], float]
) -> None:
    linked = busily_linked
    proxy, chance = linked.proxy, random.Random(16)
    taped, passages = _tape_bytes(linked), len(proxy.passages)
    sent, received = proxy.sent_bytes, proxy.received_bytes

    for _ in range(_FLAPS):
        proxy.set_down()
        _let_pass(linked, _DOWN_S)
        before = len(linked.through())
        proxy.set_up()
        _let_pass(linked, _UP_S, lambda: proxy.cut() if chance.random() < _LOSS else None)
        eventually(lambda: len(linked.through()) > before, "the runner got through")  # noqa: B023
    eventually(linked.is_linked, "the runner is back")
    linked.assert_copied()

    taped = _tape_bytes(linked) - taped
    sent, received = proxy.sent_bytes - sent, proxy.received_bytes - received
    tried = proxy.passages[passages:]
    print(f"{len(tried)} connections tried")
    print(f"{taped} bytes of tape, {sent} sent ({sent / taped:.3f}), {received} back ({received / taped:.3f})")
    # On a busy machine more is under way when the link breaks.
    assert sent + received <= promised(_RATIO) * taped + len(tried) * _GREETING_BYTES
    kinds = linked.kinds()
    assert kinds == ["runner.connected", "runner.gone"] * (len(kinds) // 2) + ["runner.connected"]


def _let_pass(linked: _Linked, seconds: float, moment: Callable[[], None] = lambda: None) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        linked.assert_one_uplink()
        moment()
        time.sleep(_MOMENT_S)


def _tape_bytes(linked: _Linked) -> int:
    return sum(member.pod.tape().end for member in linked.members)


def test_r16_a_link_that_is_dead_without_saying_so_is_noticed_by_both_sides(fleet: Fleet) -> None:
    fleet.times |= {
        "scrubjay.server.sockets.runner.SILENCE_S": _SHORT_SILENCE_S,
        "scrubjay.runner.remote_link.SILENCE_S": _SHORT_SILENCE_S,
    }
    with _linked(fleet, "m") as linked:
        _await_both_notice(linked)
        assert set(linked.server.processes()) == set()  # none can be reached, which is said of each
        linked.proxy.set_up()
        linked.proxy.cut()  # the runner may be waiting for an answer to its next try
        eventually(linked.is_linked, "the runner is back")
        linked.assert_copied()


@pytest.mark.alone
def test_r16_a_link_that_is_dead_without_saying_so_is_noticed_within_20_s(linked: _Linked) -> None:
    noticed = _await_both_notice(linked)

    print(f"noticed by the server after {noticed['server']:.1f} s, by the runner after {noticed['runner']:.1f} s")
    assert max(noticed.values()) <= _NOTICED_S


def _await_both_notice(linked: _Linked) -> dict[str, float]:
    """Silence the link; after how many seconds the runner and the server have noticed."""
    before = linked.lost()
    linked.proxy.set_silent()
    began = time.monotonic()
    noticed: dict[str, float] = {}

    def both_know() -> bool:
        if linked.lost() > before:
            noticed.setdefault("runner", time.monotonic() - began)
        if linked.kinds()[-1] == "runner.gone":
            noticed.setdefault("server", time.monotonic() - began)
        return len(noticed) == 2

    eventually(both_know, "both sides have noticed")
    return noticed


def test_r16_a_runner_that_comes_back_has_its_dead_connection_put_out_at_once(linked: _Linked) -> None:
    linked.proxy.set_silent()
    linked.runner.kill()  # the server does not hear of it
    linked.proxy.set_up()
    linked.runner.begin()

    eventually(lambda: linked.runner.log.count('"server.connected"') == 2, "it is back")
    eventually(lambda: connections_at(linked.server.pid, linked.port) == 1, "the old one is gone")
    eventually(linked.is_linked, "all pods can be reached")
    linked.assert_one_uplink()
    linked.assert_copied()
    assert linked.kinds() == ["runner.connected"]


def test_r16_a_screen_with_much_on_it_gets_through_and_breaks_no_link(linked: _Linked) -> None:
    # 250 columns, a colour for each letter and a thousand lines that scrolled off: a keyframe of almost 2 MB.
    drawing = "import random; from time import sleep\n"
    drawing += "letter = lambda: '\\x1b[38;2;%d;%d;%dm#' % tuple(random.randbytes(3))\n"
    drawing += "for _ in range(1100): print(''.join(letter() for _ in range(250)))\n"
    drawing += "print('drawn'); sleep(1000)"
    client = linked.server.client
    client.post("/api/v1/pods", {"command": [sys.executable, "-c", drawing], "name": "wide", "cols": 250, "rows": 60})
    try:
        eventually(lambda: "drawn" in _screen(client, "wide"), "it is drawn")
        viewer = Viewer(linked.server.data / "server.sock", "wide", query="?mode=watch")
        try:
            eventually(lambda: b"drawn" in viewer.output, "it is seen")
        finally:
            viewer.close()
    finally:
        client.post("/api/v1/pods/wide/stop", {"grace_s": 0})

    assert len(viewer.keyframes) == 1
    assert linked.kinds() == ["runner.connected"]


def _screen(client: Client, pod: str) -> str:
    try:
        return client.fetch(f"/api/v1/pods/{pod}/screen", {"format": "text"})[1].decode()
    except ServerRefused:  # there is no copy yet
        return ""
