"""Records out of tape bytes as they arrive. Pure."""

from __future__ import annotations

from scrubjay.tape.format import decode_record, tape_salt
from scrubjay.tape.record import Record


class RecordStream:
    """Turns bytes of a tape from some offset on, in any portions, into records."""

    def __init__(self, tape: str, offset: int) -> None:
        self.offset = offset  #: of the next record
        self._salt = tape_salt(tape)
        self._pending: bytes = b""

    @property
    def wanted(self) -> int:
        """The offset of the next byte to feed."""
        return self.offset + len(self._pending)

    def feed(self, data: bytes) -> list[Record]:
        """The records completed by ``data``; BadRecord if it is not what follows."""
        data = self._pending + data if self._pending else data
        records: list[Record] = []
        position = 0
        while (decoded := decode_record(data, position, offset=self.offset, salt=self._salt)) is not None:
            record = Record(self.offset, *decoded)
            records.append(record)
            position += record.end - record.offset
            self.offset = record.end
        self._pending = data[position:]
        return records
