"""Everything Scrubjay raises on purpose.

    ScrubjayError
    ├── BadInput              what was asked for cannot be understood; exit code 2
    │   ├── BadId
    │   ├── BadName
    │   ├── BadSize
    │   ├── BadKey
    │   ├── BadInstant
    │   ├── BadQuery
    │   └── BadSetting
    ├── TapeError
    │   ├── NotATape
    │   ├── DiskFull          the tape's disk has no room; nothing is lost, try again later
    │   └── RecordTooLarge
    ├── CastError             an asciicast that cannot be read
    ├── HomeUnusable          the data directory cannot be used
    ├── EngineUnavailable     the terminal engine does not start here
    ├── SearchUnavailable     the search index cannot be used
    │   └── IndexDiscarded    it was damaged; it will be made again
    └── PodError
        ├── NoSuchPod
        ├── AmbiguousPod
        ├── NameTaken
        ├── PodNotRunning
        ├── PodRunning
        ├── StartFailed
        ├── KeeperRefused     the keeper answered no
        └── KeeperGone        the keeper's connection ended without an answer

An error has fields, a one-sentence message and, where a person can act, a hint.
"""

from __future__ import annotations


class ScrubjayError(Exception):
    """Something Scrubjay cannot do, said in one sentence."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class BadInput(ScrubjayError):
    """What was asked for cannot be understood."""


class BadId(BadInput):
    """A text that is not an id."""

    def __init__(self, kind: str, raw: str) -> None:
        self.kind, self.raw = kind, raw
        super().__init__(
            f"{raw!r} is not a {kind} id",
            hint="an id is 26 characters out of a-z and 2-7",
        )


class BadName(BadInput):
    """A text that cannot name a pod."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"{shown!r} cannot be a pod's name",
            hint="use 1 to 63 of a-z, 0-9, '-', '_' and '.', starting with a letter or digit",
        )


class BadSize(BadInput):
    """A terminal size nothing can be drawn on, or larger than any screen."""

    def __init__(self, cols: int, rows: int, *, smallest: tuple[int, int], largest: tuple[int, int]) -> None:
        self.cols, self.rows = cols, rows
        small = cols < smallest[0] or rows < smallest[1]
        super().__init__(
            f"a terminal of {cols}x{rows} is too {'small' if small else 'large'}",
            hint=f"from {smallest[0]}x{smallest[1]} to {largest[0]}x{largest[1]} works: "
            + ("enlarge the window, or give --cols and --rows" if small else "give a smaller --cols or --rows"),
        )


class BadKey(BadInput):
    """A text that names no key."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(
            f"{raw!r} is not a key",
            hint="keys are like enter, esc, tab, up, f5, ctrl-c, alt-x, shift-tab",
        )


class BadInstant(BadInput):
    """A text that names no instant of a recording."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"{shown!r} is not a time",
            hint="times are like 12.5s, 1h2m, 50%, -10m (before the end), 02:14:07, 2026-11-15T02:14 or @OFFSET",
        )


class BadQuery(BadInput):
    """A text that holds nothing to search for."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"there is nothing to search for in {shown!r}",
            hint='give words, "a phrase" or a beginning*; -word leaves out what has that word',
        )


class BadSetting(BadInput):
    """A setting whose value cannot be used."""


class TapeError(ScrubjayError):
    """Something about one tape."""


class NotATape(TapeError):
    """A file or folder that holds no tape."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} is not a tape: {why}", hint="'scrubjay ps --all' lists the tapes there are")


class DiskFull(TapeError):
    """The tape's disk has no room; what was not written is kept in memory and can be written later."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no space left for {path}", hint="free some space; recording goes on by itself")


class RecordTooLarge(TapeError):
    """A record above the size every reader can hold."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"a record of {size} bytes is above the limit of {limit}")


class CastError(ScrubjayError):
    """An asciicast that cannot be read."""

    def __init__(self, source: str, why: str, *, line: int | None = None, hint: str | None = None) -> None:
        self.source, self.why, self.line = source, why, line
        place = source if line is None else f"{source} line {line}"
        super().__init__(f"{place}: {why}", hint=hint)


class HomeUnusable(ScrubjayError):
    """The data directory cannot be used."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"cannot use {path} for recordings: {why}",
            hint="give another directory with --data or SCRUBJAY_DATA",
        )


class SearchUnavailable(ScrubjayError):
    """The search index cannot be used."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"cannot search with {path}: {why}",
            hint="free some space or make it writable; replay works without it, and it can be deleted",
        )


class IndexDiscarded(SearchUnavailable):
    """The search index was damaged and is gone; it is made again when it is next brought up to date."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it was damaged and has been thrown away")
        self.hint = "try again"


class EngineUnavailable(ScrubjayError):
    """The terminal engine does not start here; recording does not need it."""

    def __init__(self) -> None:
        super().__init__(
            "the terminal engine does not start", hint="SCRUBJAY_DEBUG=1 shows why; 'scrubjay logs' works without it"
        )


class PodError(ScrubjayError):
    """Something about one pod."""


class NoSuchPod(PodError):
    """No pod has that name, id or prefix."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no pod {raw!r}", hint="'scrubjay ps --all' lists them")


class AmbiguousPod(PodError):
    """A prefix that more than one pod has."""

    def __init__(self, raw: str, candidates: list[str]) -> None:
        self.raw, self.candidates = raw, candidates
        shown = ", ".join(candidates[:6]) + (", …" if len(candidates) > 6 else "")
        super().__init__(f"{raw!r} may be any of {shown}", hint="give more of the name or id")


class NameTaken(PodError):
    """A running pod has that name."""

    def __init__(self, name: str, pod: str) -> None:
        self.name, self.pod = name, pod
        super().__init__(
            f"the name {name!r} is taken by running pod {pod[:8]}",
            hint=f"give another --name, or end it with 'scrubjay stop {name}'",
        )


class PodNotRunning(PodError):
    """The pod's agent has ended."""

    def __init__(self, name: str, state: str) -> None:
        self.name, self.state = name, state
        super().__init__(f"pod {name!r} is not running: {state}", hint=f"'scrubjay logs {name}' shows what it did")


class PodRunning(PodError):
    """The pod's agent runs, and this needs it ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"pod {name!r} is running", hint=f"end it first with 'scrubjay stop {name}'")


class StartFailed(PodError):
    """The pod's program could not be started; nothing is left behind."""


class KeeperRefused(PodError):
    """The keeper answered that it will not do what was asked."""


class KeeperGone(PodError):
    """The keeper's connection ended without an answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the keeper of pod {name!r} went away", hint="'scrubjay ps' shows what became of it")
