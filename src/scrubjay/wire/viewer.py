"""What the server and whoever looks at a pod, the fleet or a recording say to each other over a WebSocket.

Bytes of a terminal go in binary messages with a header of 24 bytes; everything else is JSON with a ``type``. What a
viewer types may come as either. docs/live-protocol.md describes it. Pure.
"""

from __future__ import annotations

import json
from struct import Struct as Layout
from typing import Annotated, Literal

import msgspec

# kind u8, reserved u8, columns u16, rows u16, reserved u16, offset u64, at u64
_HEADER = Layout("<BxHHxxQQ")
HEADER_BYTES = _HEADER.size
SIDE_MAX = 0xFFFF  # columns or rows that can be said; a pod's terminal has fewer, as its runner says
KEYFRAME, OUTPUT = 1, 2
INPUT_MAX_BYTES = 64 << 10  # in one message
LATE = 4008  # closed because it took nothing for five minutes
LOGGED_OUT = 4401
FORBIDDEN = 4403
GONE = 4404
UNFIT = 4409  # another fleet, or a runner that the server will not have


_Side = Annotated[int, msgspec.Meta(ge=0, le=SIDE_MAX)]


class _Message(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    """A message; its class's name in lower case tells it from the others."""


# From the server, of a live pod.


class Hello(_Message):
    """What is being looked at."""

    pod: str
    name: str
    process: str
    cols: int
    rows: int
    may_type: bool
    reason: str | None = None
    exit_status: int | None = None


class Resized(_Message):
    """The terminal has another size from here on."""

    cols: int
    rows: int
    offset: int
    at: int


class Marked(_Message):
    """Somebody labelled this instant."""

    label: str
    author: str
    offset: int
    at: int


class Missing(_Message):
    """Output was not recorded here."""

    reason: str
    offset: int
    at: int


class Keyboard(_Message):
    """Who may type now."""

    holder: str | None
    mine: bool
    epoch: int | None = None


class Status(_Message):
    """How the pod is now."""

    process: str
    reason: str | None = None
    exit_status: int | None = None


class Refusal(_Message):
    """Something that was asked for was not done."""

    what: str
    message: str
    hint: str | None = None


# From the server, of the fleet.


class Change(_Message):
    """One numbered change of the fleet."""

    number: int
    wall_us: int
    kind: str
    pod: str | None
    data: dict[str, object]


class Caught(_Message):
    """Everything up to this number has been sent; what follows is live."""

    number: int


# From the server, of a recording.


class Recording(_Message):
    """The recording that is opened."""

    pod: str
    duration: int  #: microseconds
    wall_us: int | None  #: when it began
    live: bool


class Position(_Message):
    """Where the replay stands, and whether it moves."""

    at: int
    offset: int
    wall_us: int | None
    playing: bool
    speed: float


# From the viewer.


class Input(_Message):
    """Keys."""

    text: str


class Resize(_Message):
    """Another size for the terminal; only from who has the keyboard."""

    cols: _Side
    rows: _Side


class Take(_Message):
    """May I type? With ``takeover`` even if somebody else does."""

    takeover: bool = False


class Give(_Message):
    """I have finished typing."""


class Interrupt(_Message):
    """Signal the agent; only from who has the keyboard."""

    signal: Literal["INT", "TERM", "KILL", "QUIT", "HUP", "TSTP", "CONT", "USR1", "USR2"]


FromViewer = Input | Resize | Take | Give | Interrupt


class Seek(_Message):
    """Show the screen at an instant: microseconds, or as a person says it."""

    at: int | str


class Play(_Message):
    """Go on from here; pauses longer than ``idle_limit_s`` are shortened to it."""

    speed: float = 1.0
    idle_limit_s: float | None = None


class Pause(_Message):
    """Stay here."""


class Step(_Message):
    """To the next or previous screen that looks different."""

    forward: bool = True


FromAudience = Seek | Play | Pause | Step


class BadMessage(Exception):
    """Something that is not a message."""


_encoder = msgspec.json.Encoder()
_from_viewer: msgspec.json.Decoder[FromViewer] = msgspec.json.Decoder(FromViewer)
_from_audience: msgspec.json.Decoder[FromAudience] = msgspec.json.Decoder(FromAudience)


def encode(message: msgspec.Struct) -> str:
    """A message as JSON."""
    return encode_json(message).decode()


def encode_json(value: object) -> bytes:
    """Anything as JSON, whatever text is in it: one odd name must not keep everything else from everybody."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half of a character, which only an escape can stand for
        return json.dumps(msgspec.to_builtins(value)).encode()


def encode_screen(kind: int, data: bytes, *, offset: int, at: int, size: tuple[int, int] = (0, 0)) -> bytes:
    """Bytes for a terminal: a keyframe, or output up to an offset of the tape."""
    return _HEADER.pack(kind, *size, offset, at) + data


def decode_screen(message: bytes) -> tuple[int, int, int, tuple[int, int], bytes]:
    """Kind, offset, at, size and the bytes of a binary message."""
    kind, cols, rows, offset, at = _HEADER.unpack_from(message)
    return kind, offset, at, (cols, rows), message[HEADER_BYTES:]


def decode_from_viewer(text: str) -> FromViewer:
    """What a viewer of a live pod said; BadMessage if it is nothing."""
    try:
        return _from_viewer.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadMessage(str(error)) from error


def decode_from_audience(text: str) -> FromAudience:
    """What a viewer of a recording said; BadMessage if it is nothing."""
    try:
        return _from_audience.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadMessage(str(error)) from error
