"""What a pod has been doing, as its runner told it from the tape: a line of JSON for each status, oldest first.

Derived from the tape, so nothing is lost with it; and kept, so that nobody needs to derive it again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from scrubjay.tape.record import Json, decode_json

_NAME = "status.jsonl"
_TAIL_BYTES = 16 << 10  # in which the last line is, unless it is a very long one


class StatusFile:
    """The statuses of one pod."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME

    def append(self, row: Json) -> None:
        """Add a status. Only the runner does, and whatever it could not finish is not read."""
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            end = os.lseek(fd, 0, os.SEEK_END)
            torn = end > 0 and os.pread(fd, 1, end - 1) != b"\n"
            os.write(fd, b"\n" * torn + line + b"\n")
        finally:
            os.close(fd)

    def last(self) -> Json | None:
        """The status it has now, or had at its end; None if none is known."""
        try:
            with self._path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                for tail in (_TAIL_BYTES, end):
                    file.seek(max(0, end - tail))
                    lines = file.read().split(b"\n")
                    rows = [row for line in lines[1 if tail < end else 0 :] if "activity" in (row := decode_json(line))]
                    if rows:
                        return rows[-1]
        except FileNotFoundError:
            pass
        return None

    def rows(self) -> list[Json]:
        """All of them."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [row for line in lines if (row := decode_json(line))]

    def note_gap(self, at: int, offset: int) -> None:
        """Nobody watched from the last status up to here."""
        self.append({"gap": True, "at": at, "offset": offset})

    def note_end(self, at: int, offset: int) -> None:
        """The recording was watched to its end."""
        self.append({"end": True, "at": at, "offset": offset})

    def at(self, at: int, *, watched: bool) -> Json | None:
        """The status at an instant of the tape; None if that was never told, and must be told from the tape.

        ``watched`` is whether a runner adds to this file at present.
        """
        found: Json | None = None
        for row in self.rows():
            since = row.get("at")
            if not isinstance(since, int) or since > at:
                return None if row.get("gap") is True else found
            found = row if "activity" in row else None if row.get("gap") is True else found
            if row.get("end") is True:
                return found
        return found if watched else None
