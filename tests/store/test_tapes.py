"""Copies of tapes are tapes like any other, and hold what was acknowledged whatever disk, process and power do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event

import pytest

from scrubjay.errors import BadId, DiskFull, NotATape, TapeDiverged
from scrubjay.ids import PodId, new_pod_id
from scrubjay.store.tapes import ReplicatedTapes, SharedTapes, Synced, Tapes, seal_copy
from scrubjay.tape.anchor import WATERMARK, Anchor, read_anchor
from scrubjay.tape.format import Kind
from scrubjay.tape.raw_bytes import TapeBytes, read_bytes
from scrubjay.tape.reader import Damage
from scrubjay.tape.replica import Replica, Surviving, prepare, survey
from scrubjay.tape.segment import list_segments
from scrubjay.tape.verify import verify
from scrubjay.tape.writer import Sync
from scrubjay.wire.replication import Append, Check, Have, Portion, Receiver, Sender
from tests.support.conditions import DEADLINE_S
from tests.support.faulty_disk import FaultyDisk, PowerCut
from tests.support.paths import PROGRAMS
from tests.support.small_disk import SmallDisk, mount_small_disk
from tests.support.tapes import Content, TapeOnDisk, any_contents, begin_tape, content_of, make_tape, outputs
from tests.support.tiers import sized

JAY = PodId("jaytapejaytapejaytapejay23")
OWL = PodId("owltapeowltapeowltapeowl45")


@pytest.fixture
def ram_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory where the machine has one, and a sync that costs nothing."""
    monkeypatch.setattr(os, "fsync", os.fstat)
    monkeypatch.setattr(os, "fdatasync", os.fstat)
    memory = "/dev/shm"
    with TemporaryDirectory(prefix="scrubjay-", dir=memory if os.path.isdir(memory) else None) as folder:
        yield Path(folder)


@pytest.fixture
def tapes(tmp_path: Path) -> Iterator[ReplicatedTapes]:
    """An empty store."""
    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        yield tapes


def copy_of(tapes: ReplicatedTapes, pod: PodId = JAY) -> TapeOnDisk:
    """A copy, to be looked at."""
    return TapeOnDisk(tapes.folder / pod, pod)


def records_of(tape: TapeOnDisk) -> list[tuple[int, bytes]]:
    """Each record as it stands on the tape, with its offset."""
    whole = read_bytes(tape.open(), 0, 1 << 40)
    return [(record.offset, whole[record.offset : record.end]) for record in tape.records()]


def give(tapes: Tapes, tape: TapeOnDisk, *, start: int = 0) -> int:
    """Give a store all records of a tape from an offset on, some at a time."""
    have = start
    for first, records in _batches(tape, 20):
        if first >= start:
            have = tapes.append(PodId(tape.id), first, records)
    return have


def _batches(tape: TapeOnDisk, count: int) -> list[tuple[int, bytes]]:
    records = records_of(tape)
    groups = [records[index : index + count] for index in range(0, len(records), count)]
    return [(group[0][0], b"".join(data for _, data in group)) for group in groups]


# A copy is a tape.


def test_a_copy_has_the_same_records_at_the_same_offsets_and_is_clean(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", any_contents(Random(1), 500), JAY)

    give(tapes, original)
    kept = tapes.sync().kept

    copy = copy_of(tapes)
    assert kept == {JAY: original.open().end}
    assert copy.checksums() == original.checksums()
    assert read_bytes(copy.open(), 0, 1 << 30) == read_bytes(original.open(), 0, 1 << 30)
    assert copy.verify().verdict == "clean"


def test_segments_of_a_copy_end_where_those_of_its_writer_would(ram_path: Path) -> None:
    contents = any_contents(Random(2), 3000)
    original = make_tape(ram_path / "t", contents, JAY, segment_bytes=10_000)
    disk = FaultyDisk()
    nothing = Surviving(0, 0, 0, 0, 0, 0, 0)
    replica = Replica(JAY, disk.folder("tape"), disk.folder(".").create(WATERMARK), nothing, segment_bytes=10_000)

    for first, records in _batches(original, 500):
        replica.append(first, records)
        replica.finish_sync(replica.begin_sync(anchor=False).run())
    disk.leave(ram_path / "c")

    copy = TapeOnDisk(ram_path / "c", JAY)
    assert {path.name: path.read_bytes() for path in copy.segments()} == {
        path.name: path.read_bytes() for path in original.segments()
    }
    assert copy.verify().verdict == "clean"


def test_a_tape_is_copied_while_it_is_written_rotated_and_sealed(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    rng = Random(3)
    writer = begin_tape(tmp_path / "t", JAY, segment_bytes=20_000)
    original = TapeOnDisk(tmp_path / "t", JAY)
    sender, receiver = Sender(rng.random), Receiver()
    writer.append(Kind.HEAD, 0, b"{}")
    writer.flush()
    raw = TapeBytes(original.folder, JAY)
    sender.grew(JAY, writer.written, synced=writer.synced)
    held = tapes.have(JAY)
    receiver.opened(JAY, held.have, held.kept)
    sender.connected({JAY: Have(held.have, held.fingerprint)})
    sender.watch([JAY])

    def carry() -> None:
        while isinstance(step := sender.next(0), Portion):
            data = raw.read(step.offset, step.limit)
            sender.sent(step, len(data))
            for effect in receiver.receive(JAY, step.offset, data, synced=step.synced):
                if isinstance(effect, Append):
                    receiver.stored(JAY, tapes.append(effect.pod, effect.offset, effect.records))
        receiver.synced(tapes.sync().kept)
        for pod, ack in receiver.acknowledge().items():
            sender.acknowledged(pod, ack)

    at = 0
    for turn in range(200):
        for kind, later, payload in any_contents(rng, 5):
            at += later
            writer.append(kind, at, payload)
        writer.flush()
        if turn % 3 == 0:
            writer.sync()
        if turn % 20 == 0:
            original.seal(complete=False)
        sender.grew(JAY, writer.written, synced=writer.synced)
        carry()
        assert tapes.have(JAY).have <= writer.synced
    writer.append(Kind.SEAL, at, b"{}")
    writer.sync()
    writer.close()
    sender.grew(JAY, writer.written, synced=writer.synced, complete=True)
    carry()
    raw.close()

    assert sender.settled(JAY)
    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"


def test_what_was_given_twice_or_does_not_follow_changes_nothing(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(100), JAY)
    batches = _batches(original, 10)
    first, second, third = (batches[index] for index in (0, 1, 2))

    assert tapes.append(JAY, *second) == 0
    have = tapes.append(JAY, *first)
    assert tapes.append(JAY, *first) == have
    assert tapes.append(JAY, *third) == have
    assert tapes.append(JAY, 0, first[1] + second[1]) == third[0]
    assert tapes.append(JAY, second[0], second[1] + third[1]) == batches[3][0]

    assert read_bytes(tapes.open(JAY), 0, 1 << 20) == first[1] + second[1] + third[1]


def test_records_of_another_tape_are_refused_and_the_copy_is_left_as_it_is(
    tapes: ReplicatedTapes, tmp_path: Path
) -> None:
    original = make_tape(tmp_path / "t", outputs(20), JAY, closed=False)
    end = give(tapes, original)
    other = make_tape(tmp_path / "o", outputs(30), OWL)

    with pytest.raises(TapeDiverged) as caught:
        tapes.append(JAY, end, read_bytes(other.open(), end, 1 << 20))

    assert caught.value.offset == end
    assert tapes.have(JAY).have == end
    assert copy_of(tapes).checksums() == original.checksums()


def test_nothing_follows_the_end_of_a_tape(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    ended = make_tape(tmp_path / "t", outputs(3), JAY)
    longer = make_tape(tmp_path / "l", [*outputs(3), (int(Kind.SEAL), 3000, b'{"reason":"exit"}'), *outputs(9)], JAY)
    end = give(tapes, ended)
    assert read_bytes(longer.open(), 0, end) == read_bytes(ended.open(), 0, end)

    with pytest.raises(TapeDiverged):
        tapes.append(JAY, 0, read_bytes(longer.open(), 0, 1 << 20))


def test_a_name_that_is_no_pod_is_refused(tapes: ReplicatedTapes) -> None:
    for call in (tapes.have, tapes.open, tapes.remove):
        with pytest.raises(BadId):
            call(PodId("../../etc"))


def test_a_removed_copy_is_gone(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    give(tapes, make_tape(tmp_path / "t", outputs(10), JAY))

    tapes.remove(JAY)
    tapes.remove(OWL)

    assert tapes.have(JAY).have == 0
    assert tapes.sync().kept == {}
    assert list(tapes.folder.iterdir()) == []
    with pytest.raises(NotATape):
        tapes.open(JAY)


def test_what_a_crash_left_half_deleted_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "copies" / (JAY + ".removed") / "tape").mkdir(parents=True)

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        assert list(tapes.folder.iterdir()) == []


# Sealing.


def test_segments_are_sealed_as_they_end_and_the_last_when_the_tape_does(
    tapes: ReplicatedTapes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.store.tapes.Replica", _with_small_segments)
    original = make_tape(tmp_path / "t", any_contents(Random(4), 900), JAY)
    *most, last = _batches(original, 50)
    for batch in most:
        tapes.append(JAY, *batch)
        tapes.sync()
        for job in tapes.sealable():
            assert not job.complete
            seal_copy(job)
    sealed_while_written = len(copy_of(tapes).segments("*.sealed"))

    tapes.append(JAY, *last)
    tapes.sync()
    (job,) = tapes.sealable()
    seal_copy(job)

    copy = copy_of(tapes)
    assert sealed_while_written > 3
    assert job.complete
    assert copy.segments("*.raw") == []
    assert copy.checksums() == original.checksums()
    assert copy.verify().verdict == "clean"
    held = tapes.have(JAY)
    assert held.have == held.kept == original.open().end
    assert held.fingerprint == TapeBytes(original.folder, JAY).fingerprint(held.have)
    assert tapes.append(JAY, *last) == held.have
    assert tapes.sealable() == []


def _with_small_segments(*args: object) -> Replica:
    return Replica(*args, segment_bytes=20_000)  # pyright: ignore[reportArgumentType]


def test_what_was_left_unsealed_by_a_process_that_died_is_found_again(tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(50), JAY)
    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        give(tapes, original)

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        held = tapes.have(JAY)
        (job,) = tapes.sealable()
        seal_copy(job)

    assert held.have == held.kept == original.open().end
    assert job.complete
    assert copy_of(tapes).verify().verdict == "clean"
    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        assert tapes.have(JAY) == held
        assert tapes.sealable() == []


# Many tapes.


def test_a_thousand_tapes_need_few_open_files_and_one_segment_each(ram_path: Path) -> None:
    pods = [new_pod_id() for _ in range(sized(60, 300, 1000))]
    originals = {pod: make_tape(ram_path / "t" / pod, outputs(30), pod) for pod in pods}
    batches = {pod: _batches(tape, 8) for pod, tape in originals.items()}
    before, most = len(os.listdir("/proc/self/fd")), 0

    with closing(ReplicatedTapes(ram_path / "copies", descriptors=32)) as tapes:
        for turn in range(4):
            for pod in pods:
                tapes.append(pod, *batches[pod][turn])
                most = max(most, len(os.listdir("/proc/self/fd")) - before)
            assert set(tapes.sync().kept) == set(pods), "what was synced on the way is said, too"
        for pod in pods:
            assert copy_of(tapes, pod).checksums() == originals[pod].checksums()
            assert len(copy_of(tapes, pod).segments()) == 1

    assert most <= 32 + 2
    assert len(os.listdir("/proc/self/fd")) == before


def test_whoever_appends_faster_than_the_disk_syncs_waits_for_it(tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(400, 1000), JAY)
    with closing(ReplicatedTapes(tmp_path / "copies", unsynced_bytes=50_000)) as tapes:
        for batch in _batches(original, 20):
            tapes.append(JAY, *batch)
            held = tapes.have(JAY)
            assert held.have - held.kept <= 50_000 + len(batch[1])


def test_many_threads_append_while_another_syncs(tmp_path: Path) -> None:
    pods = [new_pod_id() for _ in range(8)]
    originals = {pod: make_tape(tmp_path / "t" / pod, any_contents(Random(pod), 300), pod) for pod in pods}
    done = Event()
    kept: dict[PodId, int] = {}
    with closing(ReplicatedTapes(tmp_path / "copies", descriptors=4)) as tapes:

        def append(pod: PodId) -> None:
            for batch in _batches(originals[pod], 3):
                tapes.append(pod, *batch)
                held = tapes.have(pod)
                assert held.kept <= held.have == batch[0] + len(batch[1])

        def sync() -> None:
            while not done.is_set():
                news = tapes.sync()
                assert news.failed == {}
                assert all(offset >= kept.get(pod, 0) for pod, offset in news.kept.items())
                kept.update(news.kept)

        with ThreadPoolExecutor(9) as threads:
            syncing = threads.submit(sync)
            appending = [threads.submit(append, pod) for pod in pods]
            for future in appending:
                future.result(DEADLINE_S)
            done.set()
            syncing.result(DEADLINE_S)
        kept.update(tapes.sync().kept)

        assert kept == {pod: tape.open().end for pod, tape in originals.items()}
        assert all(copy_of(tapes, pod).checksums() == originals[pod].checksums() for pod in pods)
        assert all(copy_of(tapes, pod).verify().verdict == "clean" for pod in pods)


# Power cuts, killed processes, failing and full disks.


def test_after_a_power_cut_everything_acknowledged_is_there_and_the_copy_goes_on(ram_path: Path) -> None:
    for seed in range(sized(15, 100, 5000)):
        try:
            _check_power_cuts(seed, ram_path / str(seed))
            shutil.rmtree(ram_path / str(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def _check_power_cuts(seed: int, root: Path) -> None:
    rng = Random(seed)
    original = make_tape(root / "t", any_contents(rng, 120), JAY)
    records = records_of(original)
    contents = original.contents()
    disk, left, kept = FaultyDisk(seed), Surviving(0, 0, 0, 0, 0, 0, 0), 0
    for life in range(4):
        kept = max(kept, _live_until_the_power_is_cut(rng, disk, left, records))
        copy = TapeOnDisk(root / f"c{life}", JAY)
        disk.crash(rng, copy.root)
        copy.folder.mkdir(exist_ok=True)
        left = survey(copy.folder, JAY, copy.anchor())

        assert left.end >= kept, "an acknowledged record is lost"
        assert left.end in {0, *(offset + len(data) for offset, data in records)}
        if left.number:
            _check_whole(copy, left, contents)
            prepare(copy.folder, left)
        disk = FaultyDisk(rng.randrange(1 << 30), short=rng.choice((0.0, 0.3)))
        disk.folder("tape").load(copy.folder)
        disk.folder(".").load(copy.root)
    replica = Replica(JAY, disk.folder("tape"), disk.folder(".").reopen(WATERMARK), left)
    for offset, data in records:
        replica.append(offset, data)
    while replica.sync_due:
        replica.finish_sync(replica.begin_sync(anchor=True).run())
    disk.leave(root / "end")

    end = TapeOnDisk(root / "end", JAY)
    assert end.contents() == contents
    assert end.verify().verdict == "clean"


def _live_until_the_power_is_cut(
    rng: Random, disk: FaultyDisk, left: Surviving, records: list[tuple[int, bytes]]
) -> int:
    """Append and sync in any order until nothing works any more; what was acknowledged by then."""
    kept = left.synced
    disk.power_left = rng.randrange(80)
    with suppress(PowerCut):
        replica = Replica(
            JAY,
            disk.folder("tape"),
            disk.folder(".").reopen(WATERMARK),
            left,
            segment_bytes=rng.choice((300, 2000, 100_000)),
        )
        kept = replica.synced
        begun: Sync | None = None
        for _ in range(100):
            if rng.random() < 0.6:
                index = rng.randrange(len(records))
                following = [i for i, (offset, _) in enumerate(records) if offset == replica.written]
                start = rng.choice([*following, *following, *following, index])
                batch = records[start : start + rng.randint(1, 6)]
                replica.append(batch[0][0], b"".join(data for _, data in batch))
            elif begun is None and replica.sync_due:
                if rng.random() < 0.1:
                    disk.fail_sync(rng.randint(1, 3))
                begun = replica.begin_sync(anchor=rng.random() < 0.3)
            elif begun is not None:
                done, begun = begun.run(), None
                if replica.finish_sync(done):
                    kept = replica.synced
    return kept


def _check_whole(copy: TapeOnDisk, left: Surviving, contents: list[Content]) -> None:
    found = [content_of(record) for record in copy.records() if record.end <= left.end]
    assert found == contents[: len(found)], "not the records that were given"
    assert sum(17 + len(payload) for _, _, payload in found) == left.end, "a hole"
    if copy.anchor().watermark is not None:
        report = copy.verify()
        assert report.verdict != "damaged", report.explain()


def test_a_survey_from_the_watermark_finds_what_reading_all_of_it_finds(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", any_contents(Random(5), 300), JAY, closed=False)
    *most, last = _batches(original, 20)
    for batch in most:
        tapes.append(JAY, *batch)
    tapes.sync()
    tapes.append(JAY, *last)
    copy = copy_of(tapes)

    found = survey(copy.folder, JAY, copy.anchor())
    all_of_it = survey(copy.folder, JAY, Anchor(None, {}))

    assert found.synced == last[0]
    assert (found.end, found.chain, found.last_kind) == (all_of_it.end, all_of_it.chain, all_of_it.last_kind)
    assert found.end == original.open().end


@dataclass
class _Process:
    """A process that copies a tape, and what it said."""

    said: list[int]


def _kill_while_copying(original: TapeOnDisk, folder: Path, after: int) -> _Process:
    command = [sys.executable, str(PROGRAMS / "tape_appender.py"), str(original.root), str(folder), JAY]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = [int(child.stdout.readline()) for _ in range(after)]
    child.kill()
    said += [int(line) for line in child.stdout.read().splitlines() if line]
    child.wait()
    child.stdout.close()
    return _Process(said)


def test_a_process_that_is_killed_while_it_copies_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", any_contents(Random(6), 4000), JAY)
    for after in (3, 1, 7):
        process = _kill_while_copying(original, tmp_path / "copies", after)
        with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
            held = tapes.have(JAY)
            assert held.have >= max(process.said)
            assert held.fingerprint == TapeBytes(original.folder, JAY).fingerprint(held.have)
            kept = tapes.sync().kept
            assert kept.get(JAY, held.kept) == held.have, "what it had written and not synced is synced now"

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        have = tapes.have(JAY).have
        tapes.append(JAY, have, read_bytes(original.open(), have, 1 << 40))
    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"


def test_what_a_killed_process_had_written_is_synced_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = make_tape(tmp_path / "t", outputs(50), JAY)
    killed = ReplicatedTapes(tmp_path / "copies")
    give(killed, original)
    synced: list[str] = []
    really = os.fsync

    def note(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        really(fd)

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        held = tapes.have(JAY)
        monkeypatch.setattr(os, "fsync", note)
        kept = tapes.sync().kept

    (segment,) = copy_of(killed).segments()
    assert (held.kept, held.have) == (0, original.open().end)
    assert kept == {JAY: held.have}
    assert segment.name in synced
    killed.close()


def test_a_copy_that_has_less_than_was_synced_goes_on_from_what_is_there(tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(100), JAY)
    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        give(tapes, original)
    (segment,) = copy_of(tapes).segments()
    os.truncate(segment, 2000)
    assert copy_of(tapes).verify().verdict == "damaged"

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        have = tapes.have(JAY).have
        assert 1800 < have < 2000
        give(tapes, original)

    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"


def test_damage_in_the_middle_of_a_copy_stays_and_is_said(tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(100), JAY, closed=False)
    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        give(tapes, original)
    (segment,) = copy_of(tapes).segments()
    data = bytearray(segment.read_bytes())
    data[1000] ^= 1
    segment.write_bytes(data)

    with closing(ReplicatedTapes(tmp_path / "copies")) as tapes:
        assert tapes.have(JAY).have == original.open().end
        give(tapes, make_tape(tmp_path / "longer", outputs(150), JAY))

    report = copy_of(tapes).verify()
    assert report.verdict == "damaged"
    assert [hurt.end - hurt.offset for hurt in report.damage] == [57]
    assert report.records == 151


def test_a_descriptor_whose_sync_failed_is_never_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    tapes = ReplicatedTapes(tmp_path / "copies", monotonic_s=lambda: now_s)
    original = make_tape(tmp_path / "t", outputs(60), JAY)
    first, second, *rest = _batches(original, 10)
    tapes.append(JAY, *first)
    before = tapes.sync()
    failed: list[str] = []
    syncs: list[str] = []
    really = os.fdatasync

    def fail_once(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        syncs.append(path)
        if path.endswith(".raw") and not failed:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        really(fd)

    monkeypatch.setattr(os, "fdatasync", fail_once)
    tapes.append(JAY, *second)
    during = tapes.sync()
    too_early = tapes.sync()
    now_s += 1
    after = tapes.sync()
    for batch in rest:
        tapes.append(JAY, *batch)
    tapes.close()

    assert too_early == Synced()
    assert before.kept == {JAY: second[0]}
    assert during.kept == {}
    assert during.failed == {JAY: "Input/output error"}
    assert after.kept == {JAY: rest[0][0]}
    assert syncs.count(failed[0]) == 1
    assert len(copy_of(tapes).segments()) == 2
    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"


def test_a_disk_that_never_syncs_gets_more_and_more_time_and_no_more_than_fits_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, tried = 0.0, list[float]()
    tapes = ReplicatedTapes(tmp_path / "copies", unsynced_bytes=20_000, monotonic_s=lambda: now_s)
    original = make_tape(tmp_path / "t", outputs(200, 1000), JAY)
    batches = _batches(original, 5)
    really = os.fdatasync

    def fail(fd: int) -> None:
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(".raw"):
            return really(fd)
        tried.append(now_s)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    taken = 0
    for _ in range(600):
        now_s += 0.1
        with suppress(OSError):
            taken = tapes.append(JAY, *batches[min(taken // len(batches[0][1]), len(batches) - 1)])
        assert tapes.sync().kept == {}
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    monkeypatch.setattr(os, "fdatasync", really)
    now_s += 20
    give(tapes, original)
    tapes.close()

    assert taken < 40_000
    assert len(tried) < 20
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(10, abs=0.2)
    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of two megabytes."""
    with mount_small_disk(tmp_path / "disk", size="2m") as disk:
        yield disk


@pytest.mark.needs("mount")
def test_r12_a_full_disk_takes_nothing_acknowledges_nothing_and_goes_on_with_space(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    original = make_tape(tmp_path / "t", outputs(600, 900), JAY)
    old = make_tape(tmp_path / "o", outputs(20), OWL)
    batches = _batches(original, 40)
    with closing(ReplicatedTapes(small_disk.path / "copies")) as tapes:
        give(tapes, old)
        tapes.append(JAY, *batches[0])
        before = tapes.sync().kept
        small_disk.fill(leave_bytes=20_000)

        for _ in range(3):
            with pytest.raises(DiskFull):
                give(tapes, original)
        held = tapes.have(JAY)
        while_full = tapes.sync()
        newcomer = new_pod_id()
        with pytest.raises(DiskFull):
            tapes.append(newcomer, 0, read_bytes(make_tape(tmp_path / "n", outputs(5), newcomer).open(), 0, 1 << 20))
        assert copy_of(tapes, OWL).checksums() == old.checksums(), "what is there can be read"
        damage = [item for item in tapes.open(JAY).scan() if isinstance(item, Damage)]
        assert all(item.offset >= held.have for item in damage)

        tapes.remove(OWL)
        small_disk.free()
        give(tapes, original, start=batches[1][0])
        kept = tapes.sync().kept

    assert while_full.kept.get(JAY, before[JAY]) <= held.have < batches[-1][0]
    assert while_full.failed[JAY] == f"no space left for {copy_of(tapes).segments()[0]}"
    assert kept[JAY] == original.open().end
    assert copy_of(tapes).checksums() == original.checksums()
    assert copy_of(tapes).verify().verdict == "clean"
    assert len(copy_of(tapes).segments()) == 1, "it goes on from the very byte where it stopped"


@pytest.mark.needs("mount")
def test_r12_what_a_full_disk_left_in_memory_is_written_by_the_next_sync(small_disk: SmallDisk, tmp_path: Path) -> None:
    original = make_tape(tmp_path / "t", outputs(100, 900), JAY)
    (batch,) = _batches(original, 1000)
    with closing(ReplicatedTapes(small_disk.path / "copies")) as tapes:
        tapes.append(JAY, 0, b"")
        small_disk.fill(leave_bytes=40_000)
        with pytest.raises(DiskFull):
            tapes.append(JAY, *batch)
        small_disk.free()

        assert tapes.sync().kept == {JAY: original.open().end}


@pytest.mark.needs("mount")
def test_r12_sealing_on_a_full_disk_leaves_nothing_half_done(small_disk: SmallDisk, tmp_path: Path) -> None:
    rng = Random(7)
    noise = [(int(Kind.OUTPUT), n, rng.randbytes(1000)) for n in range(300)]
    original = make_tape(tmp_path / "t", noise, JAY)
    with closing(ReplicatedTapes(small_disk.path / "copies")) as tapes:
        give(tapes, original)
        tapes.sync()
        small_disk.fill(leave_bytes=100_000)
        (job,) = tapes.sealable()

        with pytest.raises(OSError, match="No space left"):
            seal_copy(job)
        left = sorted(path.suffix for path in copy_of(tapes).folder.iterdir())
        small_disk.free()
        seal_copy(job)

        assert left == [".raw"]
        assert copy_of(tapes).checksums() == original.checksums()
        assert copy_of(tapes).verify().verdict == "clean"


# The tapes of the same machine.


@pytest.fixture
def shared(tmp_path: Path) -> SharedTapes:
    """The tapes of pods in a folder."""
    return SharedTapes(tmp_path / "pods")


def test_shared_tapes_have_what_keepers_have_synced_and_write_nothing(shared: SharedTapes, tmp_path: Path) -> None:
    root = tmp_path / "pods" / JAY
    writer = begin_tape(root, JAY)
    for content in outputs(10):
        writer.append(*content)
    writer.sync()
    synced = writer.synced
    writer.append(Kind.OUTPUT, 11_000, b"written, not synced")
    writer.flush()
    tape = TapeOnDisk(root, JAY)
    before, whole = tape.files(), read_bytes(tape.open(), 0, 1 << 20)

    held = shared.have(JAY)
    had = shared.append(JAY, 0, whole[:synced])
    first = shared.sync()
    nothing = shared.sync()

    assert tape.files() == before
    assert (held.have, held.kept, held.fingerprint) == (synced, synced, None)
    assert had == synced
    assert (first.kept, nothing.kept) == ({JAY: synced}, {})
    writer.sync()
    writer.close()
    assert shared.open(JAY).end == writer.written
    assert verify(shared.open(JAY), read_anchor(root, JAY), live=True).verdict == "clean"


def test_shared_tapes_of_a_pod_that_is_not_there_are_empty(shared: SharedTapes) -> None:
    shared.remove(JAY)

    assert shared.have(JAY).have == 0
    with pytest.raises(NotATape):
        shared.open(JAY)


def test_a_sender_finds_that_a_shared_tape_is_there_and_goes_on_with_what_is_new(
    shared: SharedTapes, tmp_path: Path
) -> None:
    writer = begin_tape(tmp_path / "pods" / JAY, JAY)
    for content in outputs(10):
        writer.append(*content)
    writer.sync()
    sender = Sender(lambda: 0.5)
    sender.grew(JAY, writer.written, synced=writer.synced)
    held = shared.have(JAY)
    sender.connected({JAY: Have(held.have, held.fingerprint)})
    sender.watch([JAY])
    at_first = sender.next(0)

    writer.append(Kind.OUTPUT, 11_000, b"new")
    writer.flush()
    sender.grew(JAY, writer.written, synced=writer.synced)
    step = sender.next(0)
    writer.close()

    assert at_first is None
    assert isinstance(step, Portion)
    assert (step.offset, step.limit) == (held.have, writer.written - held.have)


_Make = Callable[[Path], Tapes]


@pytest.mark.parametrize("make", [SharedTapes, ReplicatedTapes], ids=["shared", "replicated"])
def test_both_kinds_of_tapes_pass_the_same_contract(make: _Make, tmp_path: Path) -> None:
    original = make_tape(tmp_path / "pods" / JAY, any_contents(Random(8), 50), JAY)
    tapes = make(tmp_path / ("pods" if make is SharedTapes else "copies"))
    end = original.open().end

    give(tapes, original)
    again = give(tapes, original)
    kept = tapes.sync().kept

    assert again == end
    assert kept == {JAY: end}
    assert (tapes.have(JAY).have, tapes.have(JAY).kept) == (end, end)
    assert [(r.offset, r.checksum) for r in tapes.open(JAY).records()] == original.checksums()
    if isinstance(tapes, ReplicatedTapes):
        tapes.close()


def test_a_copy_of_a_tape_that_a_power_cut_made_other_is_noticed_by_its_last_bytes(
    tapes: ReplicatedTapes, tmp_path: Path
) -> None:
    """Only if a runner breaks the rules, and has bytes kept that it had not synced, can this happen at all."""
    lost = make_tape(tmp_path / "lost", outputs(20), JAY, closed=False)
    kind, at, payload = outputs(20)[-1]
    other = make_tape(tmp_path / "other", [*outputs(19), (kind, at, payload[::-1])], JAY)
    give(tapes, lost)
    held = tapes.have(JAY)
    sender = Sender(lambda: 0.5)
    sender.grew(JAY, other.open().end, synced=other.open().end, complete=True)
    sender.connected({JAY: Have(held.have, held.fingerprint)})

    check = sender.next(0)
    assert isinstance(check, Check)
    sender.checked(JAY, TapeBytes(other.folder, JAY).fingerprint(check.offset))
    found = sender.next(0)

    assert found is not None
    assert not isinstance(found, Portion)
    assert sender.next(0) is None


def test_segments_of_a_copy_are_listed_like_those_of_any_tape(tapes: ReplicatedTapes, tmp_path: Path) -> None:
    give(tapes, make_tape(tmp_path / "t", outputs(5), JAY))

    (segment,) = list_segments(tapes.folder / JAY / "tape")

    assert (segment.number, segment.first, segment.sealed) == (1, 0, False)
