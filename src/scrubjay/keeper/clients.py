"""Those who talk to a keeper: one connection each, none of which can hold up the recording."""

from __future__ import annotations

import os
import socket
import struct

from scrubjay.keeper.protocol import BadFrame, FrameReader, encode_frame, encode_tape_frame
from scrubjay.tape.format import SEGMENT_HEADER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scrubjay.keeper.protocol import Meta
    from scrubjay.keeper.replies import Replies
    from scrubjay.keeper.seat import Seat
    from scrubjay.tape.writer import TapeWriter

_RECEIVE_BYTES = 65536
_FOLLOW_BYTES = 256 << 10  # one frame to a follower; also all the memory a stalled one costs
_ANSWERS_MAX_BYTES = 1 << 20  # unread answers after which a client is not listening
_PEER = struct.Struct("3i")


class Client:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.follows_from: int | None = None  #: the next offset a follower wants
        self.seat: Seat | None = None  #: the terminal it has offered
        self.wants_synced = False  #: whether it is told how far the tape is synced
        self.told_paused: str | None = None  #: why recording is paused, as far as it was told
        self.relays = False  #: whether it passes on what is shown to and sent by a person's terminal
        self.replies: Replies | None = None  #: takes out what that terminal answers
        self.held_at = 0.0  #: when it last kept something back
        self.closed = False
        self._frames = FrameReader()
        self._out = b""

    def receive(self) -> list[tuple[Meta, bytes]]:
        """The requests that have arrived; ``closed`` is set when the other side is gone or talks nonsense."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        try:
            return self._frames.feed(data)
        except BadFrame as error:
            self.answer({"ok": False, "error": str(error)})
            self.closed = True
            return []

    def answer(self, meta: Meta) -> None:
        """Send an answer, now or when there is room."""
        self._out += encode_frame(meta)
        self.send()
        if len(self._out) > _ANSWERS_MAX_BYTES:
            self.closed = True

    def send(self) -> None:
        """Send what is waiting, as far as the other side takes it."""
        if not self._out:
            return
        try:
            sent = self.socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self.closed = True
            return
        self._out = self._out[sent:]

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._out)

    @property
    def watches(self) -> bool:
        """Whether it is shown what the agent does."""
        return self.follows_from is not None or self.seat is not None

    def follow(self, writer: TapeWriter) -> None:
        """Send the part of the tape that is next for this follower, unless it still has something to take."""
        while self.follows_from is not None and not self._out and self.follows_from < writer.written:
            data = read_written(writer, self.follows_from)
            if data is None:
                self.answer({"sealed": self.follows_from})
                self.follows_from = None
                return
            self._out = encode_tape_frame(self.follows_from, data)
            self.follows_from += len(data)
            self.send()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def read_written(writer: TapeWriter, offset: int) -> bytes | None:
    """Bytes of the tape from ``offset`` that are written; None if they are not in a raw segment any more."""
    recent = writer.recent(offset)
    if recent is not None:
        return recent
    end = writer.written
    for first, path in reversed(writer.segments):  # noqa: B007
        if first <= offset:
            break
        end = first
    else:
        return None
    limit = min(_FOLLOW_BYTES, end - offset)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.pread(fd, limit, SEGMENT_HEADER_BYTES + offset - first)
    finally:
        os.close(fd)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user on the other side of a unix socket, as the kernel knows them."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(raw)
    return pid, uid


def listen(folder: str, name: str) -> socket.socket:
    """A listening socket that only this user can connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    before = os.umask(0o177)
    try:
        # Through the descriptor, because a socket's path may be no longer than 107 bytes.
        listener.bind(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.umask(before)
        os.close(directory)
    listener.listen(64)
    listener.setblocking(False)
    return listener
