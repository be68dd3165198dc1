"""What a runner and the server say to each other.

One connection per runner. Everything a runner says may be said again after a reconnect: reports replace what was
reported before, bytes of a tape carry their offset, and an answer carries the number of what was asked. Pure.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from scrubjay.errors import BadInput
from scrubjay.fleet.process import OVER as OVER  # runners have these from here
from scrubjay.fleet.process import Activity
from scrubjay.fleet.process import Process as Process

PROTOCOL = 1  # raised when an older other side could not go on
MCP_PATH = "/mcp"  # where a server has its tools for agents


class _Message(msgspec.Struct, kw_only=True, omit_defaults=True, tag=str.lower):
    """A message; its class's name in lower case tells it from the others."""


# From the runner.


class Hello(_Message):
    """The first word of a runner."""

    protocol: int
    version: str
    runner: str  #: its id, the same after every restart
    name: str
    host: str


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent of a pod is doing, as its runner tells it from everything it shows and says."""

    activity: Activity
    waiting_for: str | None = None
    detail: str | None = None  #: what it asks or says, in its own words: not to be trusted
    problem: str | None = None  #: what went wrong, if it stopped for that
    confidence: float = 0.0  #: 0 to 1
    at: int  #: since when, by the tape
    since_us: int  #: the same by the wall clock
    offset: int = 0  #: of the tape, where that became clear
    evidence: tuple[dict[str, object], ...] = ()  #: the signals that say so
    outvoted: tuple[dict[str, object], ...] = ()  #: and those that say otherwise


class ForkedFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the files came from that a pod began with."""

    session: str
    pod: str
    at: int  #: the instant on that pod's tape


class FromCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worktree as it was kept."""

    pod: str  #: whose it was
    commit: str


class PodReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod as its runner sees it."""

    id: str
    name: str
    session: str
    argv: tuple[str, ...]
    cwd: str
    cols: int
    rows: int
    created_us: int
    process: Process
    since_us: int  #: when it became so
    status: PodStatus | None = None  #: None if it does nothing any more, or nobody knows yet
    agent: str | None = None
    arguments: tuple[str, ...] | None = None  #: those that a person gave to its agent
    conversation: str | None = None  #: the id of its agent's conversation, as far as it is known
    repository: str | None = None
    branch: str | None = None
    worktree: str | None = None
    worktree_path: str | None = None
    resumed_from: str | None = None  #: the pod whose work it goes on with
    forked_from: ForkedFrom | None = None
    imported: bool = False
    reason: str | None = None
    exit_status: int | None = None
    stopped_by: str | None = None  #: who asked for its end
    end: int = 0  #: of its tape
    complete: bool = False  #: nothing will be added to its tape


class Roster(_Message):
    """All pods of a runner, right after its hello; one that is missing is gone."""

    pods: tuple[PodReport, ...]


class PodChanged(_Message):
    """A pod that is new or not as it was."""

    pod: PodReport


class PodGone(_Message):
    """A pod that was deleted."""

    pod: str


class Offer(_Message):
    """How much of this tape do you have?"""

    pod: str


class TapeBytes(_Message):
    """A portion of a tape; with ``live`` out of order, to be shown and not kept."""

    pod: str
    offset: int
    data: bytes
    synced: int  #: how much of the tape the runner's disk has
    live: bool = False


class Restart(_Message):
    """Forget what you hold of this tape and have not kept."""

    pod: str


class Called(_Message):
    """An agent rang the bell, or sent a notification through its terminal."""

    pod: str
    offset: int
    kind: Literal["bell", "notification"]
    title: str = ""
    body: str = ""


class Diverged(_Message):
    """Two copies of a tape differ, at or before an offset; said by whichever side finds it."""

    pod: str
    offset: int
    why: str


class Answer(_Message):
    """The answer to something the server asked."""

    re: int
    result: dict[str, object] = {}
    fault: Fault | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was not done, as an error of ``scrubjay.errors`` says it."""

    kinds: tuple[str, ...]  #: the names of the error's classes, the most special first
    message: str
    hint: str | None = None


class Pong(_Message):
    """Still here."""


FromRunner = Hello | Roster | PodChanged | PodGone | Offer | TapeBytes | Restart | Diverged | Called | Answer | Pong


# From the server.


class Welcome(_Message):
    """The server knows the runner now; of which tapes it has how much, it says when they are offered."""

    version: str


class Refused(_Message):
    """The server will not have this runner; it must not come back as it is."""

    reason: str


class Found(_Message):
    """The server has this tape up to there."""

    pod: str
    offset: int
    fingerprint: int | None = None  #: of the last bytes it has; None where both sides read the same files


class Progress(_Message):
    """How far a tape has come: arrived, and synced on the server's disk."""

    pod: str
    have: int
    kept: int


class Rewind(_Message):
    """Go on from there: what came is not what follows."""

    pod: str
    offset: int


class Later(_Message):
    """The server cannot keep more of this tape now; come back there after a while."""

    pod: str
    offset: int


class Watch(_Message):
    """The pods somebody is looking at."""

    pods: tuple[str, ...]


class Ping(_Message):
    """Are you there?"""


class _Request(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something a runner can be asked to do."""


class Start(_Request, tag="start"):
    """Start a pod."""

    argv: tuple[str, ...] = ()
    agent: str | None = None  #: instead of a command
    prompt: str | None = None
    name: str | None = None
    session: str | None = None
    cwd: str | None = None
    repository: str | None = None
    branch: str | None = None
    base: str | None = None
    environment: dict[str, str] = {}
    cols: int = 120
    rows: int = 36
    pod: str | None = None  #: its id; an older runner gives it another
    mcp_token: str | None = None  #: what its agent shows to the server's tools
    #: The files to begin with, in a worktree of their own: then repository and base are the checkpoint's, and without
    #: a command or agent it is the same as that pod's.
    checkpoint: FromCheckpoint | None = None


class Resume(_Request, tag="resume"):
    """Go on in a new pod with the work of one that has ended, or look whether that is possible.

    Answered with id, name, session, conversation, branch and resumed_from of the new pod, and what was found.
    """

    pod: str  #: whose work goes on; of its session the newest that the runner has
    new: str | None = None  #: the new pod's id
    check: bool = False  #: only look; then nothing but what was found is answered
    takeover: bool = False  #: end the pod that has the session, if one does
    new_conversation: bool = False  #: begin another one, in the same session and worktree
    conversation: str | None = None  #: the one to go on with, if the runner may not know it
    arguments: tuple[str, ...] | None = None  #: for the agent; None for those it was begun with
    prompt: str | None = None
    environment: dict[str, str] = {}
    cols: int | None = None  #: None for the size it began with
    rows: int | None = None
    mcp_token: str | None = None
    author: str = "scrubjay"  #: who asks, for the tape of a pod that is ended
    name: str | None = None  #: None for the one it had
    # What a runner has to be told that never had the pod.
    session: str | None = None
    agent: str | None = None
    begun_with: tuple[str, ...] = ()
    repository: str | None = None
    branch: str | None = None
    cwd: str | None = None  #: inside the worktree


class Type(_Request, tag="type"):
    """Type into a pod."""

    pod: str
    data: bytes
    author: str
    epoch: int | None = None


class Resize(_Request, tag="resize"):
    """Change the size of a pod's terminal."""

    pod: str
    cols: int
    rows: int
    epoch: int | None = None


class Signal(_Request, tag="signal"):
    """Signal a pod's agent."""

    pod: str
    signal: str
    author: str


class Mark(_Request, tag="mark"):
    """Put a label on a pod's tape."""

    pod: str
    label: str
    author: str


class Stop(_Request, tag="stop"):
    """End a pod."""

    pod: str
    author: str
    grace_ms: int = 5000


class Remove(_Request, tag="remove"):
    """Delete a pod that has ended, with its tape."""

    pod: str


class Keyframe(_Request, tag="keyframe"):
    """The screen of a running pod as it is now: answered with offset, at, cols, rows and the engine's snapshot."""

    pod: str
    history: int = 0


class ListWorktrees(_Request, tag="worktrees"):
    """All worktrees of the runner with their state."""


class DiffWorktree(_Request, tag="diff"):
    """What was changed in a worktree."""

    name: str
    patch: bool = False


class ListCheckpoints(_Request, tag="checkpoints"):
    """What was kept of a pod's worktree: answered with ``checkpoints``, oldest first."""

    pod: str


class DiffCheckpoint(_Request, tag="diff-checkpoint"):
    """What was changed between two checkpoints of a pod, each named by its commit."""

    pod: str
    at: str | None = None  #: None for the worktree as it is now
    since: str | None = None  #: None for what it was made from
    patch: bool = False


class RemoveWorktree(_Request, tag="remove-worktree"):
    """Remove a worktree; its branch stays."""

    name: str
    force: bool = False


Request = (
    Start
    | Resume
    | Type
    | Resize
    | Signal
    | Mark
    | Stop
    | Remove
    | Keyframe
    | ListWorktrees
    | DiffWorktree
    | ListCheckpoints
    | DiffCheckpoint
    | RemoveWorktree
)


class Ask(_Message):
    """Something to be done; without an id nobody waits for the answer."""

    request: Request
    id: int = 0


FromServer = Welcome | Refused | Found | Progress | Rewind | Later | Diverged | Watch | Ping | Ask

_encoder = msgspec.msgpack.Encoder()
_from_runner: msgspec.msgpack.Decoder[FromRunner] = msgspec.msgpack.Decoder(FromRunner)
_from_server: msgspec.msgpack.Decoder[FromServer] = msgspec.msgpack.Decoder(FromServer)


class _AnyRequest(msgspec.Struct):
    type: str


class _AnyAsk(msgspec.Struct, tag="ask"):
    request: _AnyRequest
    id: int = 0


_any_ask: msgspec.msgpack.Decoder[_AnyAsk] = msgspec.msgpack.Decoder(_AnyAsk)
_KNOWN_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Request))


class UnknownRequest(Exception):
    """A newer server asks for something that this version cannot do; the connection goes on."""

    def __init__(self, id: int, tag: str) -> None:  # noqa: A002
        self.id, self.tag = id, tag
        super().__init__(f"this runner does not know how to {tag}")


class BadMessage(Exception):
    """Bytes that are no message; the connection cannot go on."""


def encode(message: FromRunner | FromServer) -> bytes:
    """A message as bytes; BadInput if somebody's text or number in it is none that can be sent."""
    try:
        return _encoder.encode(message)
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadInput(f"this cannot be sent to another machine: {error}", hint="text must be valid Unicode") from error


def decode_from_runner(data: bytes) -> FromRunner:
    """What a runner said; BadMessage if it is nothing."""
    try:
        return _from_runner.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadMessage(str(error)) from error


def decode_from_server(data: bytes) -> FromServer:
    """What the server said; UnknownRequest if it asks for something we never heard of, BadMessage if it is nothing."""
    try:
        return _from_server.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        asked = _read_unknown(data)
        if asked is not None:
            raise asked from error
        raise BadMessage(str(error)) from error


def _read_unknown(data: bytes) -> UnknownRequest | None:
    try:
        ask = _any_ask.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if ask.request.type in _KNOWN_TAGS else UnknownRequest(ask.id, ask.request.type)
