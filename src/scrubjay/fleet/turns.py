"""Turns, from what an agent's hooks have told: a prompt, and the answer that ended it.

A prompt begins a turn and ``Stop`` ends it. What is said meanwhile belongs to it as well: Codex takes it in at once,
Claude Code with the next tool it uses, and otherwise goes on with it when the turn has ended, all of it together and
under a new id. A prompt that nothing answered, because it was interrupted or failed, or the pod has ended, is a turn
without a response. An answer that nobody had asked for, as when a command in the background has ended, is one without a
prompt. So is a second answer to the same prompt: the first is written down by then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import cast

from scrubjay.fleet.memories import TEXT_MAX, TOOLS_MAX, WORD_MAX, Turn

ASKED_MAX = 16  # prompts that wait; what is said besides is added to the last
REPEATED_WITHIN_US = 1_000_000  # nobody types the same again as fast: the hook is there twice
CUT = "\n[… the rest was not kept]"
_QUEUES = frozenset({"claude"})
"""Who keeps what is said meanwhile for a turn of its own, unless a tool is used first."""
_TOOL_EVENTS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
_EVENTS = _TOOL_EVENTS | {"UserPromptSubmit", "Stop", "StopFailure", "Interrupt"}
_MODEL_MAX = min(WORD_MAX, 128)

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a hook has told, and where on the tape that is."""

    offset: int  #: of its record
    end: int  #: of the record after it
    at: int
    event: str
    source: str = ""
    turn: str = ""  #: the agent's own id of the turn, if it tells one
    said: str = ""
    tool: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class ClockRead:
    """What the clock on the wall said at an instant of the tape."""

    at: int
    wall_us: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt that nothing has answered yet."""

    text: str
    at: int
    offset: int
    wall_us: int | None = None
    taken: bool = False  #: into the turn that was under way


@dataclass(frozen=True, slots=True)
class Underway:
    """What is known of turns that have not ended; nothing else of a tape is needed to go on with it."""

    asked: tuple[Asked, ...] = ()
    running: bool = False
    turn: str = ""  #: the one that is running
    tools: tuple[str, ...] = ()
    model: str = ""
    clock_us: int | None = None  #: when the tape began, by the clock that was read last
    ended_turn: str = ""  #: the one before
    ended_said: str = ""  #: what it was answered, as a hash
    ended_at: int = 0
    ended_offset: int = 0


@dataclass(frozen=True, slots=True)
class Captured:
    """A turn that was told of by hooks."""

    turn: Turn
    begin_wall_us: int | None  #: None if no clock was read
    begin_offset: int  #: of the record that it began with
    wall_us: int | None  #: of its end
    at: int  #: of its end; of its beginning, if nothing answered it
    offset: int  #: of the record it ended with, or began with: no other turn of the tape has it
    end: int  #: where the tape was when it had ended, or was known to be given up


def hear(state: Underway, heard: Heard | ClockRead) -> tuple[Underway, list[Captured]]:
    """What is under way after an event, and the turns that it has ended."""
    if isinstance(heard, ClockRead):
        return replace(state, clock_us=heard.wall_us - heard.at), []
    match heard.event:
        case "UserPromptSubmit" if heard.said:
            return _prompted(state, heard)
        case "Stop":
            return _stopped(state, heard)
        case "StopFailure" | "Interrupt":
            return _given_up(state, heard)
        case event if event in _TOOL_EVENTS and heard.tool:
            return _used_tool(state, heard), []
        case _:
            return state, []


def finish(state: Underway, end: int) -> list[Captured]:
    """The turn that the end of the pod has ended, if one was under way; ``end`` is that of its tape."""
    return _unanswered(state, state.asked, end)


def _prompted(state: Underway, heard: Heard) -> tuple[Underway, list[Captured]]:
    asked = Asked(heard.said, heard.at, heard.offset, _wall_us(state, heard.at))
    last = state.asked[-1] if state.asked else None
    if last is not None and last.text == heard.said and heard.at - last.at < REPEATED_WITHIN_US:
        return state, []
    if heard.turn and heard.turn == (state.turn if state.running else state.ended_turn):
        return replace(state, asked=_added(state.asked, asked), model=heard.model or state.model), []
    main, waiting = _main(state)
    captured = _unanswered(state, main, heard.offset)
    if captured:
        state = _ended(state, state.turn, heard.at, heard.offset)
    # What still waits is either answered together with this, or was given up: both read well as one.
    asked = replace(asked, taken=bool(waiting))
    waiting = tuple(replace(prompt, taken=True) for prompt in waiting)
    begun = replace(state, asked=_added(waiting, asked), running=True, turn=heard.turn, tools=(), model=heard.model)
    return begun, captured


def _stopped(state: Underway, heard: Heard) -> tuple[Underway, list[Captured]]:
    if heard.turn and heard.turn == state.ended_turn:
        if not heard.said or _mark(heard.said) == state.ended_said:
            return state, []
        more = _answered(replace(state, tools=(), model=""), (), heard)
        return replace(state, ended_said=_mark(heard.said)), [more]
    soon = heard.at - state.ended_at < REPEATED_WITHIN_US
    if soon and not heard.turn and not state.running and _mark(heard.said) == state.ended_said:
        return state, []
    main, waiting = _main(state)
    if state.running and heard.turn and state.turn and heard.turn != state.turn:
        # It was interrupted, and this is the answer to what was said meanwhile.
        given_up = _unanswered(state, main, heard.offset)
        state, main, waiting = replace(state, tools=(), model=""), waiting, ()
    else:
        given_up: list[Captured] = []
        if not state.running or heard.source not in _QUEUES:
            main, waiting = state.asked, ()
    said_anything = bool(main or heard.said)
    captured = [*given_up, *([_answered(state, main, heard)] if said_anything else [])]
    after = _ended(state, heard.turn or state.turn, heard.at, heard.end, said=_mark(heard.said))
    return replace(after, asked=waiting, running=False, turn="", tools=(), model=""), captured


def _given_up(state: Underway, heard: Heard) -> tuple[Underway, list[Captured]]:
    if not state.running or (heard.turn and state.turn and heard.turn != state.turn):
        return state, []
    main, waiting = _main(state) if heard.source in _QUEUES else (state.asked, ())
    captured = _unanswered(state, main, heard.end)
    after = _ended(state, state.turn, heard.at, heard.end)
    return replace(after, asked=waiting, running=False, turn="", tools=(), model=""), captured


def _used_tool(state: Underway, heard: Heard) -> Underway:
    if state.running:
        if heard.turn and heard.turn != state.turn:
            return state
    elif not state.asked or not heard.turn or heard.turn == state.ended_turn:
        return state
    known = heard.tool in state.tools or len(state.tools) >= TOOLS_MAX
    return replace(
        state,
        asked=tuple(replace(asked, taken=True) for asked in state.asked),
        running=True,
        turn=heard.turn,
        tools=state.tools if known else (*state.tools, heard.tool),
        model=heard.model or state.model,
    )


def _main(state: Underway) -> tuple[tuple[Asked, ...], tuple[Asked, ...]]:
    """What the turn that is running was asked, and what waits for its end."""
    if not state.running:
        return (), state.asked
    count = max([1, *(number for number, asked in enumerate(state.asked, 1) if asked.taken)])
    return state.asked[:count], state.asked[count:]


def _added(asked: tuple[Asked, ...], new: Asked) -> tuple[Asked, ...]:
    if len(asked) < ASKED_MAX:
        return (*asked, new)
    return (*asked[:-1], replace(asked[-1], text=_joined((asked[-1], new))))


def _ended(state: Underway, turn: str, at: int, offset: int, *, said: str = "") -> Underway:
    return replace(state, ended_turn=turn or state.ended_turn, ended_said=said, ended_at=at, ended_offset=offset)


def _mark(said: str) -> str:
    return hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=12).hexdigest() if said else ""


def _answered(state: Underway, asked: tuple[Asked, ...], heard: Heard) -> Captured:
    turn = Turn(prompt=_joined(asked), response=heard.said, model=heard.model or state.model or None, tools=state.tools)
    wall_us = _wall_us(state, heard.at)
    if asked:
        began_us, offset = asked[0].wall_us, asked[0].offset
    else:
        began_us, offset = wall_us, state.ended_offset
    return Captured(turn, began_us, offset, wall_us, heard.at, heard.offset, heard.end)


def _unanswered(state: Underway, asked: tuple[Asked, ...], end: int) -> list[Captured]:
    if not asked:
        return []
    turn = Turn(prompt=_joined(asked), model=state.model or None, tools=state.tools)
    first = asked[0]
    return [Captured(turn, first.wall_us, first.offset, first.wall_us, first.at, first.offset, end)]


def _wall_us(state: Underway, at: int) -> int | None:
    return None if state.clock_us is None else state.clock_us + at


def _joined(asked: tuple[Asked, ...]) -> str:
    return shorten("\n\n".join(prompt.text for prompt in asked))


def shorten(text: str) -> str:
    """A text that fits into a memory, and says where it was cut."""
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - len(CUT)] + CUT


def read_heard(offset: int, end: int, at: int, told: Mapping[str, object]) -> Heard | None:
    """What the JSON of a tape's event says of turns; None if nothing."""
    event = _text(told, "event", WORD_MAX)
    if not _text(told, "source", WORD_MAX) or event not in _EVENTS:
        return None
    said = _text(told, "response" if event == "Stop" else "prompt", TEXT_MAX)
    return Heard(
        *(offset, end, at, event, _text(told, "source", WORD_MAX), _text(told, "turn", WORD_MAX), said),
        *(_text(told, "tool", WORD_MAX), _text(told, "model", _MODEL_MAX)),
    )


def _text(told: Mapping[str, object], name: str, most: int) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not value.strip():
        return ""
    return value[:most].encode("utf-8", "replace").decode()  # half of a character is nobody's


def encode_underway(state: Underway) -> Json:
    """What is under way, as JSON."""
    return asdict(state)


def decode_underway(told: object) -> Underway:
    """The same back; nothing under way if it says nothing that can be understood."""
    if not isinstance(told, dict):
        return Underway()
    known = {field.name for field in fields(Underway)}
    values = {name: value for name, value in cast(Json, told).items() if name in known}
    try:
        prompts = cast(list[dict[str, object]], values.pop("asked", []))
        asked = tuple(Asked(**prompt) for prompt in prompts)  # pyright: ignore[reportArgumentType]
        tools = tuple(cast(list[str], values.pop("tools", [])))
        return Underway(asked=asked, tools=tools, **values)  # pyright: ignore[reportArgumentType]
    except TypeError:  # of another version
        return Underway()
