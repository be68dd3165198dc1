"""R16: a link that flaps, or is dead without saying so, loses nothing, doubles nothing and wastes little."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from chaos.cluster import Service
from chaos.fleet import Fleet, Member
from chaos.ledger import tape_ledger
from chaos.machine import eventually
from chaos.proxy import Proxy, connections_to, open_proxy
from scrubjay.tape.reader import Tape
from tiers import sized

_PHASE_S = sized(5, 20) / 10
_FLAPPING_S = sized(12, 600)
_LOSS = 0.05  # of the moments in which the link is up
_MOMENT_S = 0.05
_NOTICED_S = 20
_RATIO = 1.5
_GREETING_BYTES = 4096  # a handshake, hello, roster and what is known of each tape, for each connection
_MEMBERS = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class _Linked:
    """A server and a runner with a link in between that can be broken."""

    fleet: Fleet
    proxy: Proxy
    server: Service
    runner: Service
    members: list[Member]

    def copy(self, member: Member) -> Tape:
        return Tape(self.server.data / "tapes" / member.pod.id / "tape")

    def is_linked(self) -> bool:
        return set(self.server.processes().values()) == {"running"}

    def assert_one_uplink(self) -> None:
        """One connection at most, as the kernel has it on the runner's side and the server on its own."""
        assert len(connections_to(self.runner.pid, self.proxy.port)) <= 1

    def assert_copied(self) -> None:
        """End all pods; then the copies hold every number once and all that the originals do."""
        self.fleet.finish(*self.members)
        for member in self.members:
            end = member.pod.tape().end
            eventually(lambda: self.copy(member).end == end, f"the copy of {member.name} is whole", within_s=30)  # noqa: B023
            ledger = tape_ledger(self.copy(member))
            assert ledger.faults == (0, 0, 0)
            assert ledger.count == member.ledger().count > 0


@pytest.fixture
def linked(fleet: Fleet) -> Generator[_Linked]:
    with open_proxy() as proxy:
        server, runner = fleet.server_and_runner(through=proxy.port)
        address = re.search(r'"url": "http://127\.0\.0\.1:([0-9]+)"', server.log)
        assert address is not None
        proxy.target = int(address[1])
        members = fleet.metronomes(_MEMBERS, "--long", "--every-ms", "10")
        linked = _Linked(fleet, proxy, server, runner, members)
        eventually(linked.is_linked, "all pods are in the fleet", within_s=30)
        yield linked


@pytest.mark.timeout(sized(120, 1800))
def test_r16_a_flapping_link_loses_nothing_doubles_nothing_and_wastes_little(linked: _Linked) -> None:
    proxy, chance = linked.proxy, random.Random(16)
    paid = _tape_bytes(linked)
    sent, received, connections = proxy.sent_bytes, proxy.received_bytes, len(proxy.passages)

    until = time.monotonic() + _FLAPPING_S
    while time.monotonic() < until:
        proxy.set_down()
        _wait(linked, _PHASE_S)
        proxy.set_up()
        _wait(linked, _PHASE_S, lambda: proxy.cut() if chance.random() < _LOSS else None)
    eventually(linked.is_linked, "the runner is back", within_s=30)
    linked.assert_copied()

    payload = _tape_bytes(linked) - paid
    sent, received = proxy.sent_bytes - sent, proxy.received_bytes - received
    connections = len(proxy.passages) - connections
    passed = [passage for passage in proxy.passages if passage.received_bytes]
    print(f"{connections} connections, {len(passed)} through; {payload} bytes of tape, {sent} sent, {received} received")
    print(f"ratio {sent / payload:.3f} there, {(sent + received) / payload:.3f} both ways")
    assert len(passed) > 3
    assert sent + received <= _RATIO * payload + connections * _GREETING_BYTES


def _wait(linked: _Linked, seconds: float, moment: object = None) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        linked.assert_one_uplink()
        if callable(moment):
            moment()
        time.sleep(_MOMENT_S)


def _tape_bytes(linked: _Linked) -> int:
    return sum(member.pod.tape().end for member in linked.members)
