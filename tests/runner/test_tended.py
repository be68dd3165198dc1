"""What the runner knows of one pod, and how it listens to its keeper."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scrubjay.clock import SystemClock
from scrubjay.pods.pod import Observation, Pod
from scrubjay.runner import keeper_link
from scrubjay.runner.keeper_link import KeeperLink
from scrubjay.runner.tended import Tended
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.segment import list_segments
from scrubjay.unix_sockets import dial
from tests.runner.fake_keeper import FakeKeeper, Witness
from tests.support.conditions import DEADLINE_S, until

pytestmark = pytest.mark.anyio

_SEGMENT_BYTES = 4096


@asynccontextmanager
async def _tending(keeper: FakeKeeper) -> AsyncGenerator[tuple[Tended, Witness]]:
    witness = Witness()
    tended = Tended(keeper.pod, witness, SystemClock())
    async with keeper.keeping():
        tending = asyncio.create_task(tended.tend())
        try:
            yield tended, witness
        finally:
            tending.cancel()
            await asyncio.wait([tending])


def _output(witness: Witness) -> bytes:
    return b"".join(record.payload for record in witness.records if record.kind == Kind.OUTPUT)


async def test_a_tape_that_is_sealed_nearly_to_its_end_is_followed_over_one_connection(tmp_path: Path) -> None:
    keeper = FakeKeeper(tmp_path, segment_bytes=_SEGMENT_BYTES)
    for _ in range(20):
        keeper.add(Kind.OUTPUT, bytes(1000))
    keeper.disk.seal(complete=False)
    assert [file.sealed for file in list_segments(keeper.disk.folder)][-2:] == [True, False]

    async with _tending(keeper) as (tended, witness):
        await until(lambda: tended.running and tended.end == keeper.writer.offset, "it is listened to")
        keeper.add(Kind.OUTPUT, b"live")
        await until(lambda: _output(witness).endswith(b"live"), "what follows is heard")

    assert len(keeper.links) == 1


async def test_what_follows_damage_near_the_end_of_a_tape_is_heard(tmp_path: Path) -> None:
    keeper = FakeKeeper(tmp_path)
    for _ in range(3):
        keeper.add(Kind.OUTPUT, b"spoilt")
    (segment,) = keeper.disk.segments()
    segment.write_bytes(segment.read_bytes().replace(b"spoilt", b"SPOILT", 1))

    async with _tending(keeper) as (_, witness):
        await until(lambda: _output(witness) == b"spoiltspoilt", "what is whole is heard")
        keeper.add(Kind.OUTPUT, b"live")
        await until(lambda: _output(witness) == b"spoiltspoiltlive", "what follows is heard")

    assert len(keeper.links) == 2


async def test_a_keeper_that_hangs_up_is_dialled_at_longer_and_longer_intervals(tmp_path: Path) -> None:
    keeper = FakeKeeper(tmp_path)
    keeper.curt = True

    async with _tending(keeper):
        await until(lambda: len(keeper.links) >= 6, "it is dialled again and again")

    assert keeper.links[5] - keeper.links[0] >= 0.3


async def test_tending_ends_when_it_is_told_to_in_the_moment_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = FakeKeeper(tmp_path)
    hear = KeeperLink.data_received

    def hear_and_end(link: KeeperLink, data: bytes) -> None:
        hear(link, data)
        if not tending.cancelling():
            tending.cancel()

    monkeypatch.setattr(KeeperLink, "data_received", hear_and_end)
    async with keeper.keeping():
        tending = asyncio.create_task(Tended(keeper.pod, Witness(), SystemClock()).tend())
        _, going_on = await asyncio.wait([tending], timeout=DEADLINE_S)
        tending.cancel()

    assert not going_on


@pytest.mark.parametrize(
    ("signal", "after_s", "stopped_by"),
    [("TERM", 1, "ann"), ("KILL", 1, "ann"), ("INT", 1, None), ("WINCH", 1, None), ("TERM", 61, None)],
)
async def test_only_a_signal_that_ends_an_agent_is_a_wish_for_its_end_and_not_for_ever(
    tmp_path: Path, signal: str, after_s: int, stopped_by: str | None
) -> None:
    keeper = FakeKeeper(tmp_path)

    async with _tending(keeper) as (tended, witness):
        keeper.add(Kind.SIGNAL, encode_json(signal=signal, author="ann"))
        keeper.add(Kind.OUTPUT, b"last words", after_us=after_s * 1_000_000)
        await until(lambda: _output(witness) == b"last words", "all is heard")

    assert tended.report().stopped_by == stopped_by


async def test_a_keeper_that_comes_to_life_when_its_end_is_looked_for_is_not_taken_for_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, witness = FakeKeeper(tmp_path), Witness()
    tended = Tended(keeper.pod, witness, SystemClock())
    observe = Pod.observe
    seen = [Observation("running"), Observation("ending")]

    def look(pod: Pod) -> Observation:
        return seen.pop() if seen else observe(pod)

    monkeypatch.setattr(Pod, "observe", look)

    await asyncio.wait_for(tended.tend(), 10)

    assert (seen, witness.told, tended.complete) == ([], ["lost"], True)


async def test_a_keeper_is_dialled_again_when_there_was_no_socket_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = FakeKeeper(tmp_path)
    refused: list[Path] = []

    def dial_scarcely(path: Path, *, timeout_s: float | None = None) -> socket.socket:
        if not refused:
            refused.append(path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return dial(path, timeout_s=timeout_s)

    monkeypatch.setattr(keeper_link, "dial", dial_scarcely)
    async with _tending(keeper) as (tended, _):
        await until(lambda: tended.running, "it is listened to")

    assert refused


async def test_the_conversation_that_an_agent_reports_is_part_of_what_is_known_of_its_pod(tmp_path: Path) -> None:
    keeper = FakeKeeper(tmp_path)

    async with _tending(keeper) as (tended, _):
        await until(lambda: tended.running, "it is listened to")
        assert tended.report().conversation is None
        keeper.add(Kind.EVENT, encode_json(event="Stop", source="claude", seq=1, conversation="one"))
        await until(lambda: tended.report().conversation == "one", "it is known")
        keeper.add(Kind.EVENT, encode_json(event="recording.paused", reason="disk full"))
        keeper.add(Kind.EVENT, encode_json(event="SessionStart", source="claude", seq=2, conversation="another"))
        await until(lambda: tended.report().conversation == "another", "it has begun another")
