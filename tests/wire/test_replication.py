"""Tapes come over whole, whatever the link, the store and the power do; nothing is promised that is not so."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faulty_store import FAULTS, FaultyStore
from scrubjay.errors import DiskFull
from scrubjay.ids import PodId
from scrubjay.tape.format import RECORD_MAX_BYTES, Kind, encode_record, tape_salt
from scrubjay.wire import replication as wire
from scrubjay.wire.replication import (
    Ack,
    Append,
    Check,
    Diverged,
    Effect,
    Have,
    Later,
    Offer,
    Portion,
    Receiver,
    Restart,
    Rewind,
    Sender,
    Show,
)
from tiers import sized

JAY = PodId("jaytapejaytapejaytapejay23")
OWL = PodId("owltapeowltapeowltapeowl45")
ANT = PodId("anttapeanttapeanttapeant67")
PODS = (JAY, OWL, ANT)


class Original:
    """A tape on its runner."""

    def __init__(self, pod: PodId) -> None:
        self.pod, self.salt = pod, tape_salt(pod)
        self.data = b""
        self.synced = 0
        self.ends = [0]
        self.complete = False

    @property
    def end(self) -> int:
        return len(self.data)

    def record(self, payload: bytes, kind: Kind = Kind.OUTPUT) -> None:
        """Write one record."""
        self.data += encode_record(kind, len(self.ends), payload, offset=self.end, salt=self.salt)
        self.ends.append(self.end)

    def sync(self) -> None:
        """Have it all on the medium."""
        self.synced = self.end

    def lose(self, rng: Random) -> None:
        """Lose some of what was not synced, from some record on."""
        end = rng.choice([end for end in self.ends if end >= self.synced])
        self.data = self.data[:end]
        self.ends = [known for known in self.ends if known <= end]


def tape_of(pod: PodId, *payloads: bytes, complete: bool = False) -> Original:
    """A synced tape with these outputs."""
    tape = Original(pod)
    for payload in payloads:
        tape.record(payload)
    if complete:
        tape.record(b"{}", Kind.SEAL)
        tape.complete = True
    tape.sync()
    return tape


# What travels.


@dataclass(frozen=True, slots=True)
class Bytes:
    pod: PodId
    offset: int
    data: bytes
    synced: int
    live: bool


@dataclass(frozen=True, slots=True)
class Found:
    pod: PodId
    have: Have


ToServer = Bytes | Offer | Restart | Diverged
ToRunner = Found | Rewind | Later | Diverged | tuple[PodId, Ack]


@dataclass(slots=True)
class World:
    """A runner, a server and a link that does as it is told."""

    store: FaultyStore = field(default_factory=FaultyStore)
    tapes: dict[PodId, Original] = field(default_factory=lambda: {pod: Original(pod) for pod in PODS})
    now_us: int = 0
    to_server: deque[ToServer] = field(default_factory=deque[ToServer])
    to_runner: deque[ToRunner] = field(default_factory=deque[ToRunner])
    sent: list[Bytes] = field(default_factory=list[Bytes])  #: everything since bytes were last lost, to be replayed
    diverged: list[Diverged] = field(default_factory=list[Diverged])
    viewers: dict[PodId, int] = field(default_factory=dict[PodId, int])
    acknowledged: Counter[PodId] = field(default_factory=Counter[PodId])
    sent_bytes: int = 0
    sender: Sender = field(init=False)
    receiver: Receiver = field(default_factory=Receiver)

    def __post_init__(self) -> None:
        self.start_runner()

    # The runner.

    def start_runner(self) -> None:
        """A new process that finds its tapes."""
        self.sender = Sender(Random(0).random)
        for pod in self.tapes:
            self.tell_sender(pod)

    def tell_sender(self, pod: PodId) -> None:
        tape = self.tapes[pod]
        self.sender.grew(pod, tape.end, synced=tape.synced, complete=tape.complete)

    def step(self, portion_bytes: int = 1 << 30) -> bool:
        """Do what the sender wants next, reading no more than so much at once; False if it wants nothing."""
        match self.sender.next(self.now_us):
            case None:
                return False
            case Check(pod, start, end):
                self.sender.checked(pod, crc32(self.tapes[pod].data[start:end]))
            case Portion(pod, offset, limit, synced, live) as portion:
                assert live or offset >= self.acknowledged[pod], "sent what was acknowledged"
                data = self.tapes[pod].data[offset : offset + min(limit, portion_bytes)]
                message = Bytes(pod, offset, data, synced, live)
                self.sent.append(message)
                self.to_server.append(message)
                self.sent_bytes += len(data)
                self.sender.sent(portion, len(data))
            case Offer() | Restart() as word:
                self.to_server.append(word)
            case Diverged() as found:
                self.diverged.append(found)
                self.to_server.append(found)
        return True

    def tell_runner(self, message: ToRunner) -> None:
        match message:
            case Found(pod, have):
                self.sender.found(pod, have)
            case Rewind(pod, offset):
                self.sender.rewind(pod, offset)
            case Later(pod, offset):
                self.sender.retry_later(pod, offset, self.now_us)
            case Diverged(pod):
                self.sender.refused(pod)
            case (pod, ack):
                self.acknowledged[pod] = max(self.acknowledged[pod], ack.kept)
                self.sender.acknowledged(pod, ack)

    # The server.

    def tell_server(self, message: ToServer) -> None:
        match message:
            case Bytes(pod, offset, data, synced, live):
                if live:
                    self.do(self.receiver.receive_live(pod, offset, data))
                else:
                    self.do(self.receiver.receive(pod, offset, data, synced=synced))
            case Offer(pod):
                self.answer_offer(pod)
            case Restart(pod):
                self.do(self.receiver.restart(pod))
            case Diverged(pod):
                self.receiver.stop(pod)

    def answer_offer(self, pod: PodId) -> None:
        held = self.store.have(pod)
        self.receiver.opened(pod, held.have, held.kept)
        self.to_runner.append(Found(pod, Have(held.have, held.checksum)))

    def do(self, effects: list[Effect]) -> None:
        """Do what the receiver wants."""
        for effect in effects:
            match effect:
                case Append(pod, offset, records):
                    try:
                        self.receiver.stored(pod, self.store.append(pod, offset, records))
                    except (DiskFull, OSError):
                        have = self.store.have(pod).have if self.now_us % 2 else None
                        self.do(self.receiver.failed(pod, have))
                    self.check_store(pod)
                case Show(pod, offset, data, jump):
                    self.show(pod, offset, data, jump=jump)
                case Rewind() | Later():
                    self.to_runner.append(effect)
                case Diverged():
                    self.diverged.append(effect)
                    self.to_runner.append(effect)

    def show(self, pod: PodId, offset: int, data: bytes, *, jump: bool) -> None:
        assert jump or offset == self.viewers.get(pod, offset), "a viewer has missed something unsaid"
        assert data
        self.viewers[pod] = offset + len(data)

    def check_store(self, pod: PodId) -> None:
        kept, tape = self.store.data[pod], self.tapes[pod]
        assert kept == tape.data[: len(kept)], "the store has what is not on the tape"
        assert len(kept) <= tape.synced, "the store has what the runner may lose"

    def sync_store(self) -> None:
        try:
            self.receiver.synced(self.store.sync().kept)
        except OSError:
            return

    def acknowledge(self) -> None:
        for pod, ack in self.receiver.acknowledge().items():
            assert ack.kept <= self.store.synced[pod], "acknowledged what is not synced"
            assert ack.kept <= ack.have
            self.to_runner.append((pod, ack))

    # The link.

    def disconnect(self) -> None:
        self.to_server.clear()
        self.to_runner.clear()
        self.sender.disconnected()
        self.receiver.disconnected()
        self.acknowledged.clear()

    def connect(self) -> None:
        self.disconnect()
        self.store.fate = "Done"
        have: dict[PodId, Have] = {}
        for pod in self.tapes:
            held = self.store.have(pod)
            self.receiver.opened(pod, held.have, held.kept)
            have[pod] = Have(held.have, held.checksum)
        self.sender.connected(have)

    def settle(self, *, step_us: int = 100_000) -> None:
        """Let everything arrive."""
        for _ in range(100_000):
            busy = self.step()
            while self.to_server:
                busy = True
                self.tell_server(self.to_server.popleft())
            self.sync_store()
            self.acknowledge()
            while self.to_runner:
                busy = True
                self.tell_runner(self.to_runner.popleft())
            if not busy and self.sender.wake_us is None:
                return
            self.now_us += step_us
        pytest.fail("it does not come to rest")

    def expect_all_kept(self) -> None:
        for pod, tape in self.tapes.items():
            assert self.store.data[pod] == tape.data
            assert self.store.synced[pod] == tape.end
            assert self.sender.settled(pod) == tape.complete
            assert tape.end == 0 or self.viewers.get(pod, tape.end) == tape.end, "a viewer has not come to the present"


# Any interleaving of anything.


class Adversary:
    """Does to a world what chance wants."""

    def __init__(self) -> None:
        self.world = World()
        self.connected = False

    def act(self, name: str, seed: int) -> None:
        rng = Random(seed)
        world = self.world
        world.now_us += rng.choice((0, 1, 1000, 5_000_000))
        pod = rng.choice(PODS)
        match name:
            case "record":
                for _ in range(rng.randint(1, 3)):
                    world.tapes[pod].record(rng.randbytes(rng.choice((0, 1, 30, 700))))
                world.tell_sender(pod)
            case "sync runner":
                world.tapes[pod].sync()
                world.tell_sender(pod)
            case "step":
                for _ in range(rng.randint(1, 4)):
                    world.step(rng.choice((1, 40, 500, 1 << 30)))
            case "deliver":
                for _ in range(rng.randint(1, 4)):
                    self.deliver(rng)
            case "answer":
                for _ in range(min(len(world.to_runner), rng.randint(1, 4))):
                    world.tell_runner(world.to_runner.popleft())
            case "shuffle answers":
                rng.shuffle(world.to_runner)
            case "repeat answer" if world.to_runner:
                world.tell_runner(rng.choice(world.to_runner))
            case "lose answer" if world.to_runner:
                del world.to_runner[rng.randrange(len(world.to_runner))]
            case "lose bytes" if world.to_server:
                del world.to_server[rng.randrange(len(world.to_server))]
            case "replay" if world.sent and self.connected:
                world.tell_server(rng.choice(world.sent))
            case "sync store":
                world.sync_store()
                if rng.random() < 0.8:
                    world.acknowledge()
            case "break store":
                world.store.fate = rng.choice(FAULTS)
            case "watch":
                world.sender.watch(rng.sample(PODS, rng.randint(0, 3)))
            case "connect":
                self.connected = True
                world.connect()
            case "disconnect":
                self.connected = False
                world.disconnect()
            case "restart runner":
                self.connected = False
                world.disconnect()
                world.start_runner()
            case "restart server":
                self.connected = False
                world.disconnect()
                world.receiver, world.viewers = Receiver(), {}
            case "lose server's power":
                self.act("restart server", seed)
                world.store.lose_power(rng)
            case "lose runner's power":
                world.disconnect()
                self.connected = False
                for tape in world.tapes.values():
                    tape.lose(rng)
                world.sent.clear()
                world.start_runner()
            case "lose keeper":
                self.lose_keeper(rng, pod)
            case _:
                pass

    def deliver(self, rng: Random) -> None:
        """Deliver a message, most often the next one, once or twice, or only a part of it."""
        world = self.world
        if not world.to_server:
            return
        index = rng.choice((0, 0, 0, rng.randrange(len(world.to_server))))
        # Bytes that were sent before a restart are other bytes than those after it. A connection keeps them apart.
        restart = next((i for i, word in enumerate(world.to_server) if isinstance(word, Restart)), None)
        index = index if restart is None else min(index, restart)
        message = world.to_server[index]
        if isinstance(message, Bytes) and rng.random() < 0.2:
            cut = rng.randint(0, len(message.data))
            keep = rng.choice((slice(0, cut), slice(cut, None)))
            offset = message.offset + (keep.start or 0)
            world.tell_server(Bytes(message.pod, offset, message.data[keep], message.synced, message.live))
            return
        if isinstance(message, Bytes) and rng.random() < 0.2:
            world.tell_server(message)
        else:
            del world.to_server[index]
            world.store.fate = "Done" if isinstance(message, Offer) else world.store.fate
            world.tell_server(message)

    def lose_keeper(self, rng: Random, pod: PodId) -> None:
        """A keeper dies on a disk that had failed: its tape ends otherwise than was sent."""
        tape = self.world.tapes[pod]
        tape.lose(rng)
        self.world.sent = [message for message in self.world.sent if message.pod != pod]
        self.world.sender.restart(pod)
        tape.record(rng.randbytes(rng.choice((5, 300))), Kind.GAP)
        tape.sync()
        self.world.tell_sender(pod)


_ACTS = (
    *("record", "sync runner", "step", "deliver", "answer", "sync store") * 3,
    "shuffle answers",
    "repeat answer",
    "lose answer",
    "lose bytes",
    "replay",
    "break store",
    "break store",
    "watch",
    "connect",
    "disconnect",
    "restart runner",
    "restart server",
    "lose server's power",
    "lose runner's power",
    "lose keeper",
)


@pytest.mark.timeout(sized(120, 3600))
@settings(max_examples=sized(500, 10_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.binary(min_size=200, max_size=600))
def test_r17_any_interleaving_ends_like_one_clean_delivery(acts: bytes) -> None:
    adversary = Adversary()
    world = adversary.world
    adversary.act("connect", 0)
    for act, seed in zip(acts[::2], acts[1::2], strict=False):
        adversary.act(_ACTS[act % len(_ACTS)], seed)
        if not adversary.connected and seed % 3:
            adversary.act("connect", 0)

    for tape in world.tapes.values():
        tape.record(b"{}", Kind.SEAL)
        tape.sync()
        tape.complete = True
        world.tell_sender(tape.pod)
    world.connect()
    world.sender.watch(PODS)
    world.settle()

    assert world.diverged == []
    world.expect_all_kept()
