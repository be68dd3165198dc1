"""What a speaker's stamps tell of the way its updates went."""

from __future__ import annotations

import re

from scrubjay.pods.pod import Pod
from scrubjay.tape.format import Kind

_STAMP = re.compile(rb"@(\d{20})#(\d{10})@")
_LAST_WORDS = re.compile(rb"@end#(\d{10})@")


def made_ns(data: bytes) -> list[int]:
    """When each update was made whose stamp is there as a whole, by the monotonic clock."""
    return [int(found[1]) for found in _STAMP.finditer(data)]


def is_whole(output: bytes) -> bool:
    """Whether all updates that a speaker has counted are there, once and in order."""
    counted = _LAST_WORDS.findall(output)
    numbers = [int(found[2]) for found in _STAMP.finditer(output)]
    return bool(counted) and numbers == list(range(int(counted[-1])))


def output_of(pod: Pod, after: int = 0) -> bytes:
    """Everything that a pod's program has shown after an offset of its tape, where a record begins."""
    return b"".join(record.payload for record in pod.tape().records(after) if record.kind == Kind.OUTPUT)
