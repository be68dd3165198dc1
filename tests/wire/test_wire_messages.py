"""What a runner makes of what a server says that may be of another version."""

from __future__ import annotations

import msgspec
import pytest

from scrubjay.wire.messages import Ask, BadMessage, Resume, UnknownRequest, decode_from_server, encode
from tests.support.tables import every_row


def test_a_request_of_a_newer_server_is_known_by_its_number_and_name() -> None:
    newer = msgspec.msgpack.encode({"type": "ask", "id": 7, "request": {"type": "levitate", "pod": "ada"}})

    with pytest.raises(UnknownRequest, match="this runner does not know how to levitate") as unknown:
        decode_from_server(newer)
    assert unknown.value.id == 7


@every_row(
    "message",
    [
        {"type": "ask", "id": 7, "request": {"type": "stop"}},
        {"type": "ask", "id": "x", "request": {"type": "levitate"}},
        {"type": "levitate"},
        {"type": "ask"},
        [1, 2],
    ],
)
def test_what_is_broken_is_no_request_that_is_only_unknown(message: object) -> None:
    with pytest.raises(BadMessage):
        decode_from_server(msgspec.msgpack.encode(message))


def test_a_word_more_than_is_known_is_passed_over() -> None:
    told = {"type": "ask", "id": 7, "request": {"type": "resume", "pod": "a" * 26, "gently": True}}

    asked = decode_from_server(msgspec.msgpack.encode(told))

    assert asked == Ask(id=7, request=Resume(pod="a" * 26))
    assert decode_from_server(encode(Ask(id=7, request=Resume(pod="a" * 26, arguments=())))) != asked
