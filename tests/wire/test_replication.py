"""Tapes come over whole, whatever the link, the store and the power do; nothing is promised that is not so."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrubjay.errors import DiskFull
from scrubjay.ids import PodId
from scrubjay.tape.format import RECORD_MAX_BYTES, Kind, encode_record, tape_salt
from scrubjay.tape.raw_bytes import fingerprint
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
from tests.support.faulty_store import FAULTS, FaultyStore
from tests.support.tiers import sized

JAY = PodId("jaytapejaytapejaytapejay23")
OWL = PodId("owltapeowltapeowltapeowl45")
ANT = PodId("anttapeanttapeanttapeant67")
PODS = (JAY, OWL, ANT)


class Original:
    """A tape on its runner."""

    def __init__(self, pod: PodId) -> None:
        self.pod, self.salt = pod, tape_salt(pod)
        self._data = bytearray()
        self.synced = 0
        self.ends = [0]
        self.complete = False

    @property
    def end(self) -> int:
        return len(self._data)

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    def read(self, offset: int, limit: int) -> bytes:
        return bytes(self._data[offset : offset + limit])

    def record(self, payload: bytes, kind: Kind = Kind.OUTPUT) -> None:
        """Write one record."""
        self._data += encode_record(kind, len(self.ends), payload, offset=self.end, salt=self.salt)
        self.ends.append(self.end)

    def sync(self) -> None:
        """Have it all on the medium."""
        self.synced = self.end

    def lose(self, rng: Random) -> None:
        """Lose some of what was not synced, from some record on."""
        end = rng.choice([end for end in self.ends if end >= self.synced])
        del self._data[end:]
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
    sent: list[Bytes] = field(default_factory=list[Bytes])  #: everything that may come once more
    diverged: list[Diverged] = field(default_factory=list[Diverged])
    viewers: dict[PodId, int] = field(default_factory=dict[PodId, int])
    watched: tuple[PodId, ...] = ()
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
            case Check(pod, offset):
                self.sender.checked(pod, fingerprint(self.tapes[pod].data[:offset]))
            case Portion(pod, offset, limit, synced, live) as portion:
                assert live or offset >= self.acknowledged[pod], "sent what was acknowledged"
                data = self.tapes[pod].read(offset, min(limit, portion_bytes))
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
        self.to_runner.append(Found(pod, Have(held.have, held.fingerprint)))

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
        # All of it is compared at the end.
        assert kept[-4096:] == tape.read(max(0, len(kept) - 4096), 4096)[: len(kept)], "not what is on the tape"
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

    @property
    def restarting(self) -> bool:
        """Whether a restart is under way. Bytes before it are others than those after it; a connection keeps order."""
        return any(isinstance(word, Restart) for word in self.to_server)

    def disconnect(self) -> None:
        self.to_server.clear()
        self.to_runner.clear()
        # What the runner may yet lose never comes over another connection than its own.
        self.sent = [message for message in self.sent if message.offset + len(message.data) <= message.synced]
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
            have[pod] = Have(held.have, held.fingerprint)
        self.sender.connected(have)
        self.sender.watch(self.watched)

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
            case "replay" if world.sent and self.connected and not world.restarting:
                world.tell_server(rng.choice(world.sent))
            case "sync store":
                world.sync_store()
                if rng.random() < 0.8:
                    world.acknowledge()
            case "break store":
                world.store.fate = rng.choice(FAULTS)
            case "watch":
                world.watched = tuple(rng.sample(PODS, rng.randint(0, 3)))
                if self.connected:
                    world.sender.watch(world.watched)
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
        if world.restarting:
            index = 0
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


@settings(max_examples=sized(60, 300, 10_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.binary(min_size=200, max_size=600))
def test_r17_any_interleaving_ends_like_one_clean_delivery(acts: bytes) -> None:
    adversary = Adversary()
    world = adversary.world
    world.watched = PODS
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
    world.watched = PODS
    world.connect()
    world.settle()

    assert world.diverged == []
    world.expect_all_kept()


@settings(max_examples=sized(25, 50, 500), deadline=None)
@given(sizes=st.lists(st.integers(0, 2000), max_size=30), cuts=st.lists(st.integers(1, 3000), min_size=1, max_size=30))
def test_r17_a_batch_given_twice_changes_nothing(sizes: list[int], cuts: list[int]) -> None:
    tape = tape_of(JAY, *(bytes(size) for size in sizes))
    world = World(tapes={JAY: tape})
    world.connect()
    batch: list[Bytes] = []
    for cut in cuts:
        world.step(cut)
    while world.step():
        pass
    batch += [message for message in world.to_server if isinstance(message, Bytes)]

    for message in batch:
        world.tell_server(message)
    once, answers = bytes(world.store.data[JAY]), len(world.to_runner)
    for message in batch:
        world.tell_server(message)

    assert once == tape.data == world.store.data[JAY]
    assert len(world.to_runner) == answers


# What goes first.


def connected(*tapes: Original, watched: tuple[PodId, ...] = ()) -> World:
    """A world with these tapes, all of them new to the server."""
    world = World(tapes={tape.pod: tape for tape in tapes}, watched=watched)
    world.connect()
    return world


def portions(world: World) -> Iterator[Portion]:
    """What the sender sends as long as nothing is acknowledged."""
    while (step := world.sender.next(world.now_us)) is not None:
        assert isinstance(step, Portion)
        world.sender.sent(step, step.limit)
        yield step


def test_live_bytes_go_before_backlog() -> None:
    world = connected(tape_of(JAY, *[bytes(200_000)] * 20), tape_of(OWL, b"live"))

    first, second, *_ = portions(world)

    assert (first.pod, second.pod) == (OWL, JAY)


def test_of_live_tapes_the_one_that_has_waited_longest_goes_first() -> None:
    world = connected(tape_of(JAY), tape_of(OWL), tape_of(ANT), watched=PODS)
    for pod in (ANT, JAY, OWL, ANT):
        world.tapes[pod].record(b"x")
        world.tell_sender(pod)

    assert [portion.pod for portion in portions(world) if portion.limit] == [ANT, JAY, OWL]


def test_backlog_is_shared_fairly() -> None:
    world = connected(*(tape_of(pod, *[bytes(250_000)] * 40) for pod in PODS))
    taken: Counter[PodId] = Counter()
    for _ in range(20):
        for portion in portions(world):
            taken[portion.pod] += portion.limit
            ack = Ack(portion.offset + portion.limit, 0)
            world.sender.acknowledged(portion.pod, ack)
            if sum(taken.values()) > 6_000_000:
                break

    assert max(taken.values()) - min(taken.values()) <= 2 * wire.PORTION_BYTES


def test_a_flood_of_live_output_does_not_stop_the_backlog() -> None:
    world = connected(tape_of(JAY, *[bytes(250_000)] * 40), tape_of(OWL))
    sent: Counter[PodId] = Counter()
    for _ in range(100):
        world.tapes[OWL].record(bytes(100_000))
        world.tapes[OWL].sync()
        world.tell_sender(OWL)
        step = world.sender.next(0)
        assert isinstance(step, Portion)
        world.sender.sent(step, step.limit)
        world.sender.acknowledged(step.pod, Ack(step.offset + step.limit, 0))
        sent[step.pod] += step.limit

    assert sent[JAY] >= sent[OWL] * wire.PORTION_BYTES // (2 * wire.BACKLOG_EVERY_BYTES)
    assert sent[OWL] > 10 * sent[JAY]


def test_an_echo_goes_out_although_a_flood_fills_the_window() -> None:
    world = connected(
        tape_of(JAY, *[bytes(250_000)] * 40), tape_of(OWL, *[bytes(50_000)] * 5), tape_of(ANT), watched=(ANT,)
    )
    assert len(list(portions(world))) > 1
    world.tapes[ANT].record(b"echo")
    world.tell_sender(ANT)

    (echo,) = portions(world)

    assert (echo.pod, echo.limit) == (ANT, world.tapes[ANT].end)


def test_no_more_is_under_way_than_a_lost_connection_may_cost() -> None:
    world = connected(*map(tape_of, PODS))
    end = 50_000_000
    for pod in PODS:
        world.sender.grew(pod, end, synced=end)
    acknowledged: Counter[PodId] = Counter()
    sent: Counter[PodId] = Counter()
    for _ in range(200):
        for portion in portions(world):
            sent[portion.pod] += portion.limit
        under_way = sent.total() - acknowledged.total()
        assert under_way <= wire.WINDOW_START_BYTES + acknowledged.total() // wire.SHARE
        assert all(sent[pod] - acknowledged[pod] <= wire.POD_WINDOW_BYTES for pod in PODS)
        for pod in PODS:
            acknowledged[pod] = sent[pod]
            world.sender.acknowledged(pod, Ack(sent[pod], 0))

    assert sent == Counter(dict.fromkeys(PODS, end))


def test_what_was_acknowledged_is_not_sent_again_whatever_late_word_comes() -> None:
    world = connected(tape_of(JAY, *[b"x" * 100] * 10))
    tape = world.tapes[JAY]
    (portion,) = portions(world)
    world.sender.acknowledged(JAY, Ack(tape.end, tape.ends[6]))

    world.sender.rewind(JAY, tape.ends[2])
    world.sender.retry_later(JAY, tape.ends[3], now_us=0)

    assert portion.limit == tape.end
    assert world.sender.next(10_000_000) == Portion(JAY, tape.ends[6], tape.end - tape.ends[6], tape.end, live=False)


def test_what_is_acknowledged_while_a_tape_starts_again_is_not_sent_again() -> None:
    world = connected(tape_of(JAY, *[b"x" * 100] * 10))
    tape = world.tapes[JAY]
    list(portions(world))
    world.sender.rewind(JAY, 0)
    world.sender.restart(JAY)
    assert world.sender.next(0) == Restart(JAY)

    world.sender.acknowledged(JAY, Ack(tape.end, tape.ends[6]))
    world.sender.rewind(JAY, 0)

    assert world.sender.next(0) == Portion(JAY, tape.ends[6], tape.end - tape.ends[6], tape.end, live=False)


def test_a_record_larger_than_the_window_arrives() -> None:
    tapes = [tape_of(pod, *[bytes(RECORD_MAX_BYTES - 17)] * 3, complete=True) for pod in PODS]
    world = connected(*tapes)

    world.settle()

    world.expect_all_kept()


def test_what_somebody_watches_is_shown_at_once_and_kept_when_the_runner_has_synced_it() -> None:
    world = connected(tape_of(JAY), watched=(JAY,))
    tape = world.tapes[JAY]
    tape.record(b"not on the runner's disk yet")
    world.tell_sender(JAY)
    world.settle()
    shown, kept = world.viewers[JAY], bytes(world.store.data[JAY])

    tape.sync()
    world.tell_sender(JAY)
    world.settle()

    assert (shown, kept) == (tape.end, b"")
    assert world.store.data[JAY] == tape.data


def test_what_nobody_watches_is_sent_when_the_runner_has_synced_it() -> None:
    world = connected(tape_of(JAY))
    tape = world.tapes[JAY]
    tape.record(b"not on the runner's disk yet")
    world.tell_sender(JAY)
    before = world.sender.next(0)

    tape.sync()
    world.tell_sender(JAY)

    assert before is None
    assert world.sender.next(0) == Portion(JAY, 0, tape.end, tape.end, live=False)


def test_what_is_not_synced_is_sent_as_soon_as_somebody_watches() -> None:
    world = connected(tape_of(JAY))
    world.tapes[JAY].record(b"not on the runner's disk yet")
    world.tell_sender(JAY)

    world.sender.watch([JAY])

    assert world.sender.next(0) == Portion(JAY, 0, world.tapes[JAY].end, 0, live=False)


def test_a_runner_that_lost_its_power_goes_on_without_a_contradiction() -> None:
    world = connected(tape_of(JAY, b"kept"), watched=(JAY,))
    tape = world.tapes[JAY]
    tape.record(b"shown, and lost in the power cut")
    world.tell_sender(JAY)
    world.settle()
    world.disconnect()

    tape.lose(Random(1))
    tape.record(b"recorded instead, and longer than what was lost in the power cut")
    tape.record(b"{}", Kind.SEAL)
    tape.sync()
    tape.complete = True
    world.start_runner()
    world.connect()
    world.settle()

    assert world.diverged == []
    world.expect_all_kept()


def test_a_keeper_that_died_with_a_failing_disk_leaves_no_contradiction() -> None:
    world = connected(tape_of(JAY, b"kept"), watched=(JAY,))
    tape = world.tapes[JAY]
    tape.record(b"shown, and lost with the pages of the disk")
    world.tell_sender(JAY)
    world.settle()

    world.sender.restart(JAY)
    tape.lose(Random(1))
    tape.record(b"the recorder died; and this is longer than what was lost", Kind.GAP)
    tape.sync()
    world.tell_sender(JAY)
    world.settle()

    assert world.diverged == []
    world.expect_all_kept()


def test_a_tape_that_is_shorter_than_what_was_sent_is_started_again() -> None:
    world = connected(tape_of(JAY, b"kept"), watched=(JAY,))
    tape = world.tapes[JAY]
    tape.record(b"lost")
    world.tell_sender(JAY)
    world.settle()

    tape.lose(Random(1))
    world.tell_sender(JAY)

    assert world.sender.next(0) == Restart(JAY)


# The present first, for who watches.


def far_behind() -> World:
    """A world with a tape that is a megabyte behind, which somebody watches."""
    return connected(tape_of(JAY, *[bytes(100_000)] * 10), watched=(JAY,))


def test_the_newest_bytes_of_a_watched_tape_are_sent_ahead_of_its_backlog() -> None:
    world = far_behind()
    tape = world.tapes[JAY]

    first = world.sender.next(0)

    assert first == Portion(JAY, tape.end - wire.AHEAD_BYTES, wire.AHEAD_BYTES, tape.synced, live=True)


def test_bytes_sent_ahead_are_shown_once_and_kept_in_their_turn() -> None:
    world = far_behind()
    tape = world.tapes[JAY]
    shows: list[Show] = []
    for _ in range(1000):
        world.step()
        while world.to_server:
            message = world.to_server.popleft()
            assert isinstance(message, Bytes)
            receive = world.receiver.receive_live if message.live else None
            effects = (
                receive(message.pod, message.offset, message.data)
                if receive is not None
                else world.receiver.receive(message.pod, message.offset, message.data, synced=message.synced)
            )
            shows += [effect for effect in effects if isinstance(effect, Show)]
            world.do([effect for effect in effects if isinstance(effect, Append)])
        world.acknowledge()
        while world.to_runner:
            world.tell_runner(world.to_runner.popleft())

    assert [(show.offset, show.offset + len(show.data), show.jump) for show in shows] == [
        (tape.end - wire.AHEAD_BYTES, tape.end, True)
    ]
    assert world.store.data[JAY] == tape.data


def test_a_watched_tape_that_is_nearly_caught_up_is_not_sent_twice() -> None:
    world = connected(tape_of(JAY, bytes(100_000)), watched=(JAY,))
    world.settle()

    assert world.sent_bytes == world.tapes[JAY].end


def test_nothing_is_sent_ahead_when_nobody_watches_any_more() -> None:
    world = far_behind()
    world.sender.watch([])

    step = world.sender.next(0)

    assert isinstance(step, Portion)
    assert not step.live


def test_a_watched_tape_that_cannot_be_kept_is_still_shown() -> None:
    world = connected(tape_of(JAY, b"x"), watched=(JAY,))
    world.settle()
    world.tapes[JAY].record(b"while the server's disk is full")
    world.tapes[JAY].sync()
    world.tell_sender(JAY)
    world.sender.retry_later(JAY, 0, now_us=0)

    step = world.sender.next(0)

    assert isinstance(step, Portion)
    assert step.live


# A store that fails.


def test_a_store_that_fails_is_tried_again_with_growing_pauses_up_to_a_limit() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"x" * 100)})
    world.sender = Sender(lambda: 1.0)
    world.tell_sender(JAY)
    world.connect()
    pauses: list[int] = []
    for _ in range(8):
        while world.step():
            pass
        world.store.fate = "Unavailable"
        world.tell_server(world.to_server.popleft())
        world.tell_runner(world.to_runner.popleft())
        wake_us = world.sender.wake_us
        assert wake_us is not None
        assert world.sender.next(wake_us - 1) is None
        pauses.append(wake_us - world.now_us)
        world.now_us = wake_us

    assert pauses == [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 4_000_000, 4_000_000, 4_000_000]


def test_pauses_are_spread_by_chance() -> None:
    assert wire.retry_delay_us(3, lambda: 0.0) == 0
    assert wire.retry_delay_us(3, lambda: 0.5) == 1_000_000
    assert wire.retry_delay_us(1000, lambda: 1.0) == 4_000_000


def test_no_more_than_a_record_is_sent_to_a_store_that_has_failed_before_it_keeps_something() -> None:
    world = connected(tape_of(JAY, *[bytes(200_000)] * 20))
    world.settle()
    world.tapes[JAY].record(bytes(200_000))
    for _ in range(20):
        world.tapes[JAY].record(bytes(200_000))
    world.tapes[JAY].sync()
    world.tell_sender(JAY)
    kept = len(world.store.data[JAY])
    world.sender.retry_later(JAY, kept, now_us=0)
    world.now_us = 5_000_000

    tried = sum(portion.limit for portion in portions(world))
    world.sender.acknowledged(JAY, Ack(kept + tried, kept + 200_017))
    more = sum(portion.limit for portion in portions(world))

    assert tried == RECORD_MAX_BYTES
    assert more > tried


def test_a_full_store_delays_one_tape_and_loses_nothing() -> None:
    world = connected(tape_of(JAY, b"a" * 500, complete=True), tape_of(OWL, b"b" * 500, complete=True))
    world.store.fate = "Partial"

    world.settle()

    world.expect_all_kept()


# Copies that differ.


def test_a_copy_that_is_longer_than_the_tape_is_left_alone_and_said() -> None:
    longer = tape_of(JAY, b"same", b"only the server has this")
    world = World(tapes={JAY: tape_of(JAY, b"same")})
    world.store.data[JAY] += longer.data
    world.connect()
    world.settle()

    assert [(found.pod, found.offset) for found in world.diverged] == [(JAY, world.tapes[JAY].end)]
    assert world.store.data[JAY] == longer.data
    assert world.sent_bytes == 0


def test_a_copy_whose_last_bytes_differ_is_left_alone_and_said() -> None:
    other = tape_of(JAY, b"same", b"other")
    world = World(tapes={JAY: tape_of(JAY, b"same", b"bytes", b"and more")})
    world.store.data[JAY] += other.data
    world.connect()
    world.settle()

    assert [(found.pod, found.offset) for found in world.diverged] == [(JAY, other.end)]
    assert world.store.data[JAY] == other.data
    assert world.sent_bytes == 0


def test_a_tape_that_differs_is_still_shown_to_who_watches() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"same", b"bytes", b"and more")})
    world.store.data[JAY] += tape_of(JAY, b"same", b"other").data
    world.watched = (JAY,)
    world.connect()
    world.settle()

    assert world.viewers[JAY] == world.tapes[JAY].end


def test_one_tape_that_differs_does_not_hold_up_another() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"one"), OWL: tape_of(OWL, b"two", complete=True)})
    world.store.data[JAY] += tape_of(JAY, b"other").data
    world.connect()
    world.settle()

    assert [found.pod for found in world.diverged] == [JAY]
    assert world.store.data[OWL] == world.tapes[OWL].data


def test_bytes_that_are_no_record_of_the_tape_are_not_kept() -> None:
    receiver = Receiver()
    receiver.opened(JAY, 0, 0)
    good, stranger = tape_of(JAY, b"good"), tape_of(OWL, b"good", b"a record of another tape")
    data = good.data + stranger.data[good.end :]

    append, diverged = [e for e in receiver.receive(JAY, 0, data, synced=len(data)) if not isinstance(e, Show)]

    assert append == Append(JAY, 0, good.data)
    assert isinstance(diverged, Diverged)
    assert diverged.offset == good.end
    assert receiver.receive(JAY, good.end, tape_of(JAY, b"good", b"x").data[good.end :], synced=10_000) == []


def test_a_copy_is_compared_once_and_not_at_every_connection() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"one")})
    world.store.data[JAY] += world.tapes[JAY].data
    world.connect()
    first = world.sender.next(0)
    assert isinstance(first, Check)
    world.sender.checked(JAY, fingerprint(world.tapes[JAY].data[: first.offset]))

    world.connect()

    assert world.sender.next(0) is None


def test_a_tape_of_the_same_files_is_not_compared() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"one")})

    world.sender.connected({JAY: Have(world.tapes[JAY].end + 5, None)})

    assert world.sender.next(0) is None


# The receiver's answers.


def test_a_gap_is_said_once() -> None:
    tape = tape_of(JAY, *[b"x" * 50] * 10)
    receiver = Receiver()
    receiver.opened(JAY, 0, 0)
    ends = tape.ends
    receiver.receive(JAY, 0, tape.data[: ends[1]], synced=tape.end)

    said = [
        effect
        for first, last in ((2, 3), (3, 4), (2, 4))
        for effect in receiver.receive(JAY, ends[first], tape.data[ends[first] : ends[last]], synced=tape.end)
    ]

    assert said == [Rewind(JAY, ends[1])]


def test_an_acknowledgement_says_only_what_is_new() -> None:
    tape = tape_of(JAY, b"one", b"two")
    receiver = Receiver()
    receiver.opened(JAY, 0, 0)
    first = receiver.acknowledge()
    receiver.receive(JAY, 0, tape.data, synced=tape.end)
    receiver.stored(JAY, tape.end)
    second = receiver.acknowledge()
    third = receiver.acknowledge()
    receiver.synced({JAY: tape.end})
    receiver.synced({JAY: tape.ends[1]})
    fourth = receiver.acknowledge()

    assert first == {JAY: Ack(0, 0)}
    assert second == {JAY: Ack(tape.end, 0)}
    assert third == {}
    assert fourth == {JAY: Ack(tape.end, tape.end)}


def test_bytes_of_a_tape_nobody_opened_are_ignored() -> None:
    tape = tape_of(JAY, b"one")

    assert Receiver().receive(JAY, 0, tape.data, synced=tape.end) == []
    assert Receiver().receive_live(JAY, 0, tape.data) == []
    assert Receiver().restart(JAY) == []


def test_a_sender_that_ignores_the_window_does_not_fill_the_memory() -> None:
    receiver = Receiver()
    receiver.opened(JAY, 0, 0)
    offset = 0
    for _ in range(100):
        shown = receiver.receive(JAY, offset, bytes(1 << 20), synced=0)
        offset += sum(len(effect.data) for effect in shown if isinstance(effect, Show))

    assert offset <= wire.PENDING_MAX_BYTES + (1 << 20)


# Tapes come and go.


def test_a_tape_that_appears_later_is_offered_and_goes_on_from_what_the_server_has() -> None:
    world = connected(tape_of(JAY))
    late = tape_of(OWL, b"before", b"after", complete=True)
    world.store.data[OWL] += late.data[: late.ends[1]]
    world.tapes[OWL] = late
    world.tell_sender(OWL)
    world.settle()

    assert world.store.data[OWL] == late.data
    assert world.sent_bytes == late.end - late.ends[1]


def test_a_tape_that_is_forgotten_is_sent_no_more_and_leaves_room_for_others() -> None:
    world = connected(tape_of(JAY, *[bytes(250_000)] * 40), tape_of(OWL, *[bytes(250_000)] * 40))
    assert {portion.pod for portion in portions(world)} == {JAY, OWL}

    world.sender.forget(JAY)

    assert {portion.pod for portion in portions(world)} == {OWL}


def test_nothing_is_sent_without_a_connection() -> None:
    world = World(tapes={JAY: tape_of(JAY, b"one")})

    assert world.sender.next(0) is None


# A link that comes and goes.


@dataclass(slots=True)
class Flapping:
    """A slow link that is up for a while and down for a while, and loses what is under way each time."""

    rate: int  #: bytes a second
    latency_ms: int
    up_ms: int
    down_ms: int
    buffer_bytes: int  #: of the sender's machine, which takes it all and loses it
    tick_ms: int = 20

    def run(self, world: World, seconds: int, pod_rate: int, rng: Random) -> None:
        carried: deque[tuple[int, ToServer]] = deque()
        back: deque[tuple[int, ToRunner]] = deque()
        credit, up = 0, False
        for now in range(0, seconds * 1000, self.tick_ms):
            world.now_us = now * 1000
            for pod, tape in world.tapes.items():
                tape.record(rng.randbytes(pod_rate * self.tick_ms // 1000))
                if now % 200 == 0:
                    tape.sync()
                world.tell_sender(pod)
            if now % (self.up_ms + self.down_ms) >= self.up_ms:
                if up:
                    up = False
                    world.disconnect()
                    carried.clear()
                    back.clear()
                continue
            if not up:
                up, credit = True, 0
                world.watched = (rng.choice(PODS),)
                world.connect()
            waiting = sum(len(m.data) for m in world.to_server if isinstance(m, Bytes))
            while waiting < self.buffer_bytes and world.step():
                waiting = sum(len(m.data) for m in world.to_server if isinstance(m, Bytes))
            credit = min(credit + self.rate * self.tick_ms // 1000, self.rate)
            while world.to_server:
                message = world.to_server[0]
                size = len(message.data) if isinstance(message, Bytes) else 0
                if size > credit:
                    break
                credit -= size
                carried.append((now + self.latency_ms, world.to_server.popleft()))
            while carried and carried[0][0] <= now:
                world.tell_server(carried.popleft()[1])
            world.sync_store()
            world.acknowledge()
            back.extend((now + self.latency_ms, answer) for answer in world.to_runner)
            world.to_runner.clear()
            while back and back[0][0] <= now:
                world.tell_runner(back.popleft()[1])


@settings(max_examples=sized(8, 8, 200), deadline=None)
@given(
    rate=st.integers(150_000, 5_000_000),
    latency_ms=st.integers(0, 150),
    up_ms=st.integers(1500, 3000),
    down_ms=st.integers(500, 3000),
    buffer_bytes=st.sampled_from((64 << 10, 256 << 10, 4 << 20)),
    seed=st.integers(0, 1000),
)
def test_r16_a_flapping_link_carries_at_most_half_as_much_again(
    rate: int, latency_ms: int, up_ms: int, down_ms: int, buffer_bytes: int, seed: int
) -> None:
    world = World()
    link = Flapping(rate, latency_ms, up_ms, down_ms, buffer_bytes)

    link.run(world, seconds=30, pod_rate=20_000, rng=Random(seed))
    for tape in world.tapes.values():
        tape.record(b"{}", Kind.SEAL)
        tape.sync()
        tape.complete = True
        world.tell_sender(tape.pod)
    world.connect()
    world.settle()

    payload = sum(tape.end for tape in world.tapes.values())
    assert world.sent_bytes <= 1.5 * payload
    world.expect_all_kept()
