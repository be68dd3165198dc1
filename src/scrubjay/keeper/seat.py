"""A person's terminal that the keeper serves itself.

Through a process between, a key would take three times as long to be echoed. So whoever attaches puts the
terminal into raw mode and offers it; the keeper opens it, takes the keys and shows the output.
"""

from __future__ import annotations

import errno
import os
import termios
import time

from scrubjay.keeper.clients import read_written
from scrubjay.keeper.detach import DetachKeys
from scrubjay.tape.format import skim_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scrubjay.keeper.replies import Replies
    from scrubjay.tape.writer import TapeWriter

_READ_BYTES = 4096  # all a terminal holds of what was typed
_LOOK_EVERY_S = 1.0
_NO_TERMINAL = b"-1"


class Seat:
    """One terminal, from when it was offered until it is given back."""

    def __init__(self, pid: int, author: str, position: int) -> None:
        """Take the terminal that ``pid`` has as its standard input; OSError if that cannot be."""
        self.author = author
        self.position = position  #: the next offset of the tape to show
        self.gone = False  #: whether the terminal was closed
        self.away = False  #: whether a shell has the terminal at the moment; then nothing is read or shown
        self.left_alone = False  #: whether it is known to be, and looked at from time to time
        self.holding = False  #: whether something is kept back: a key that may be the first of two, or half an answer
        self.replies: Replies | None = None  #: takes out what the terminal answers, if another one answers for the pod
        self._keys = DetachKeys()
        self._held_at = self._looked_at = 0.0
        self._out = b""
        # Opened anew, because not to wait for it is a setting that everybody who shares a descriptor shares.
        how = os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self.terminal = os.open(f"/proc/{pid}/fd/0", how)
        try:
            if not os.isatty(self.terminal):
                raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
            self._owner = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self.terminal)
            raise

    def look(self) -> bool:
        """See who has the terminal: not we, if whoever offered it was stopped and a shell goes on with it."""
        self._looked_at = time.monotonic()
        try:
            fields = os.pread(self._owner, 512, 0).rpartition(b")")[2].split(None, 6)
        except OSError:
            self.away = True  # it has ended
        else:
            group, terminal_group = fields[2], fields[5]
            # Whoever has it again makes it raw in a moment; until then it would change what is shown.
            self.away = terminal_group not in (group, _NO_TERMINAL) or (self.away and not self._is_raw())
        return not self.away

    def _is_raw(self) -> bool:
        try:
            return not termios.tcgetattr(self.terminal)[1] & termios.OPOST
        except termios.error:
            return True  # it is gone, as whoever uses it will see

    def _is_ours(self) -> bool:
        # Nobody stops a program and goes on typing to a shell in less time than this.
        if not self.away and time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self.look()
        return not self.away

    def read_keys(self) -> tuple[bytes, bool]:
        """What was typed, and whether that was to leave; nothing if it was not meant for us."""
        if not self._is_ours():
            return b"", False
        try:
            data = os.read(self.terminal, _READ_BYTES)
        except BlockingIOError:
            return b"", False
        except OSError:
            data = b""
        if not data:
            self.gone = True
        elif self.holding or b"\x1b" in data or b"\x1c" in data:
            return self._sift(data)
        return data, False

    def _sift(self, data: bytes) -> tuple[bytes, bool]:
        if self.replies is not None:
            data = self.replies.feed(data)
        leaves = False
        if data:
            data, leaves = self._keys.feed(data)
        self._held_at = time.monotonic()
        self._note_held()
        return data, leaves

    def _note_held(self) -> None:
        self.holding = self._keys.holding or (self.replies is not None and self.replies.holding)

    @property
    def hold_s(self) -> float:
        """How long what is kept back is."""
        replies = self.replies
        return replies.hold_s if replies is not None and replies.holding else DetachKeys.HOLD_S

    def release_held(self) -> bytes:
        """What was kept back, if that is long enough ago."""
        held_s = time.monotonic() - self._held_at
        if held_s < self.hold_s:
            return b""
        data = b""
        if self.replies is not None and self.replies.holding:
            data = self.replies.release()
            if data:
                data, _ = self._keys.feed(data)
        if held_s >= DetachKeys.HOLD_S:
            data += self._keys.release()
        self._note_held()
        return data

    def show_live(self, parts: list[bytes], since: int, end: int) -> None:
        """Show all output there is between ``since`` and ``end``, if what is before was shown; else ``show`` will."""
        if self.position < since or self._out or not self._is_ours():
            return
        self._out, self.position = b"".join(parts), end
        self._send()
        os.sched_yield()  # to whoever passes it on, or they would wait until this turn is over

    def show(self, writer: TapeWriter) -> bool:
        """Show what is next of the tape, as far as the terminal takes it; False if it is in no raw segment any more."""
        if self._is_ours():
            self._send()
        while not self._out and self.position < writer.written and self._is_ours():
            data = read_written(writer, self.position)
            if not data:
                return False
            self._out, taken = skim_output(data)
            self.position += taken
            self._send()
        return True

    @property
    def waiting(self) -> bool:
        """Whether the terminal has yet to take something."""
        return bool(self._out)

    @property
    def unshown_bytes(self) -> int:
        """How much output before ``position`` the terminal has not taken."""
        return len(self._out)

    def _send(self) -> None:
        if not self._out:
            return
        try:
            taken = os.write(self.terminal, self._out)
        except BlockingIOError:
            return
        except OSError:
            self.gone, self._out = True, b""
            return
        self._out = self._out[taken:]

    def close(self) -> None:
        """Give the terminal back."""
        os.close(self.terminal)
        os.close(self._owner)
