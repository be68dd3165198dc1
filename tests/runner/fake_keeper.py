"""A pod whose keeper is in the test's own loop: a real tape and socket, and what it says is up to the test."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

from scrubjay.ids import new_pod_id
from scrubjay.keeper.clients import listen, read_written
from scrubjay.keeper.protocol import FrameReader, encode_frame
from scrubjay.pods.pod import Pod, read_pod, write_facts
from scrubjay.runner.tended import Tended
from scrubjay.tape.format import SEGMENT_BYTES, Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.record import Json, Record
from tests.support.tapes import TapeOnDisk, begin_tape


class FakeKeeper:
    """Answers as a keeper does, for as long as ``keeping`` takes."""

    def __init__(self, root: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        pod = new_pod_id()
        folder = root / pod
        self.writer = begin_tape(folder, pod, segment_bytes=segment_bytes)
        self.disk = TapeOnDisk(folder, pod)
        write_facts(folder / "pod.json", name="fake", argv=["agent"], cwd="/")
        self.pod = cast(Pod, read_pod(folder))
        self.links: list[float] = []  #: when each connection came
        self.curt = False  #: whether it hangs up on who wants to follow
        self._at = 0
        self._followers: dict[asyncio.StreamWriter, int] = {}
        self.add(Kind.HEAD, encode_json(format=1, argv=["agent"], cols=80, rows=24))

    def add(self, kind: Kind, payload: bytes, *, after_us: int = 1000) -> None:
        """A record, synced and sent to whoever follows."""
        self._at += after_us
        self.writer.append(kind, self._at, payload)
        self.writer.sync()
        for follower in self._followers:
            self._send(follower)

    @asynccontextmanager
    async def keeping(self) -> AsyncGenerator[None]:
        """Live."""
        lock = os.open(self.pod.folder / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            async with await asyncio.start_unix_server(self._talk, sock=listen(str(self.pod.folder), "keeper.sock")):
                yield
                for follower in list(self._followers):
                    follower.close()
        finally:
            os.close(lock)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.links.append(asyncio.get_running_loop().time())
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                for meta, _ in frames.feed(data):
                    self._answer(writer, meta)
        self._followers.pop(writer, None)
        writer.close()

    def _answer(self, writer: asyncio.StreamWriter, meta: Json) -> None:
        answer: Json = {"re": meta.get("id"), "ok": True}
        match meta["do"]:
            case "status":
                writer.write(encode_frame(answer | {"status": {"cols": 80, "rows": 24, "synced": self.writer.synced}}))
            case "answer":
                writer.write(encode_frame(answer | {"from": 0}))
            case "follow" if self.curt:
                writer.close()
            case "follow":
                self._followers[writer] = int(str(meta["from"]))
                self._send(writer)
            case _:
                raise AssertionError(meta)

    def _send(self, writer: asyncio.StreamWriter) -> None:
        """As keeper.clients does it."""
        while (offset := self._followers[writer]) < self.writer.written:
            data = read_written(self.writer, offset)
            if data is None:
                writer.write(encode_frame({"sealed": offset}))
                return
            writer.write(encode_frame({"tape": offset}, data))
            self._followers[writer] += len(data)


class Witness:
    """A household that only listens."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.told: list[str] = []  #: what became of the process

    def worktree_path(self, pod: Pod) -> str | None:
        """None has one."""
        return None

    def pod_changed(self, tended: Tended) -> None:
        """Keep how it is."""
        self.told.append(tended.report().process)

    def tape_grew(self, tended: Tended, offset: int, data: bytes) -> None:
        """Have it taken in."""
        tended.take_in()

    def records_added(self, tended: Tended, records: list[Record]) -> None:
        """Keep what came."""
        self.records += records

    def screen_wanted(self, tended: Tended, answer_from: int) -> None:
        """There is none."""
