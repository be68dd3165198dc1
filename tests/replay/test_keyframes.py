"""The keyframes of a tape on disk: a cache that may rot, vanish or be of another time."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from scrubjay.replay.keyframes import FILE, Activity, Covered, Hole, Keyframe, Keyframes
from scrubjay.screen.keyframe import BadKeyframe, digest, pack, unpack


def _open(folder: Path, *, engine: str = "engine 1", tape: str = "tape") -> Keyframes:
    return Keyframes(folder, tape, engine)


def _filled(folder: Path) -> Keyframes:
    keyframes = _open(folder)
    with keyframes.writing() as ours:
        assert ours
        for n in range(1, 21):
            keyframes.add(Keyframe(n * 100, n * 1000, b"screen %d " % n * 500, whole=False))
        keyframes.add(Keyframe(1000, 10_000, b"everything", whole=True))
        learned = Covered(marks=[(1500, "here", "ann")], clocks=[(0, 77)], holes=[Hole(5, 9, "gone")], idle=[(3, 4)])
        keyframes.commit(replace(learned, offset=2000, at=20_000, activity=Activity(5, [6, 7])))
    return keyframes


def test_the_nearest_one_before_an_instant_or_an_offset_is_found(tmp_path: Path) -> None:
    keyframes = _filled(tmp_path)

    by_at, by_offset, whole = (
        keyframes.nearest(5999),
        keyframes.nearest_offset(600),
        keyframes.nearest(9999, whole=True),
    )

    assert by_at is not None
    assert (by_at.offset, by_at.snapshot) == (500, b"screen 5 " * 500)
    assert by_offset is not None
    assert by_offset.offset == 600
    assert whole is None
    assert keyframes.nearest(999) is None


def test_everything_is_there_for_whoever_opens_them_next(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    again = _open(tmp_path)

    covered = again.covered()
    assert (covered.offset, covered.at, covered.activity) == (2000, 20_000, Activity(5, [6, 7]))
    assert (covered.marks, covered.clocks, covered.idle) == ([(1500, "here", "ann")], [(0, 77)], [(3, 4)])
    assert covered.holes == [Hole(5, 9, "gone")]
    assert len(again.offsets()) == 20


def test_similar_keyframes_share_what_they_have_in_common() -> None:
    base, next_one = bytes(range(256)) * 40, bytes(range(256)) * 39 + b"something else"

    assert len(pack(next_one, base)) < len(pack(next_one)) / 2
    assert unpack(pack(next_one, base), digest(next_one, b"here"), b"here", base) == next_one


def test_a_keyframe_that_rotted_is_not_given_out_and_the_one_before_it_is(tmp_path: Path) -> None:
    keyframes = _filled(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE keyframe SET data = zeroblob(20) WHERE offset = 2000")
        connection.execute("UPDATE keyframe SET digest = zeroblob(16) WHERE offset = 1900")
    connection.close()

    found = keyframes.nearest(50_000)

    assert found is not None
    assert found.offset == 1800


def test_a_wrong_hash_is_refused_before_anything_is_made_of_it() -> None:
    with pytest.raises(BadKeyframe):
        unpack(pack(b"one"), digest(b"another", b"here"), b"here")
    with pytest.raises(BadKeyframe):
        unpack(b"not compressed at all", digest(b"one", b"here"), b"here")
    with pytest.raises(BadKeyframe):
        unpack(pack(b"one"), digest(b"one", b"here"), b"there")


@pytest.mark.parametrize("other", [{"engine": "engine 2"}, {"tape": "another"}])
def test_those_of_another_engine_or_tape_look_empty_and_are_begun_anew(tmp_path: Path, other: dict[str, str]) -> None:
    _filled(tmp_path).close()
    keyframes = _open(tmp_path, **other)

    assert keyframes.nearest(10**9) is None
    with keyframes.writing() as ours:
        assert ours
        assert keyframes.offsets() == []


def test_a_damaged_file_looks_empty_and_is_begun_anew(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    (tmp_path / FILE).write_bytes(b"this is not a database" * 1000)
    keyframes = _open(tmp_path)

    assert keyframes.covered() == Covered()
    with keyframes.writing():
        keyframes.add(Keyframe(1, 1, b"new", whole=False))
        keyframes.commit(Covered(offset=1))
    assert keyframes.offsets() == [1]


def test_those_of_a_small_tape_leave_no_file(tmp_path: Path) -> None:
    keyframes = Keyframes(tmp_path, "tape", "engine 1", small=True)
    with keyframes.writing() as ours:
        assert ours
        keyframes.add(Keyframe(5, 50, b"screen", whole=False))
        keyframes.commit(Covered(offset=5, at=50))

    found = keyframes.nearest(60)
    assert found is not None
    assert found.snapshot == b"screen"
    assert keyframes.covered().offset == 5
    assert list(tmp_path.iterdir()) == []


def test_only_one_at_a_time_may_add(tmp_path: Path) -> None:
    first, second = _open(tmp_path), _open(tmp_path)

    with first.writing() as ours, second.writing() as theirs:
        assert (ours, theirs) == (True, False)


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    keyframes = _filled(tmp_path)
    with keyframes.writing():
        keyframes.add(Keyframe(9999, 99_999, b"late", whole=False))
        keyframes.roll_back()

    assert keyframes.offsets()[-1] == 2000


def test_activity_keeps_its_sum_however_long_a_tape_gets() -> None:
    activity = Activity()
    for second in range(0, 200_000, 7):
        activity.add(second * 1_000_000, 3)

    assert sum(activity.counts) == 3 * len(range(0, 200_000, 7))
    assert len(activity.counts) <= 4096


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    _filled(tmp_path)

    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
