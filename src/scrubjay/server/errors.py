"""Which HTTP status each error is, and what its code is called."""

from __future__ import annotations

import re

from scrubjay.errors import ScrubjayError
from scrubjay.server.refusals import Refused

_STATUS = {
    "BadInput": 400,
    "StartFailed": 400,
    "CastError": 400,
    "NoSuchPod": 404,
    "NoSuchWorktree": 404,
    "NoSuchToken": 404,
    "NoSuchBase": 400,
    "NoCheckpoint": 404,
    "NotATape": 404,
    "ScopeMissing": 403,
    "NoRunner": 409,
    "PodUnreachable": 503,
    "CatalogUnavailable": 503,
    "SearchUnavailable": 503,
    "EngineUnavailable": 503,
    "KeeperGone": 503,
    "DiskFull": 503,
    "HomeUnusable": 503,
    "ScreenUnavailable": 503,
    "RepositoryBusy": 503,
    "TapeBehind": 503,
    "NoSuchBinding": 404,
    "NoSuchChannel": 404,
    "NoSuchMessage": 404,
    "NoSuchWait": 404,
    "NoSuchHandoff": 404,
    "NotForRole": 403,
    "NoSuchSession": 404,
    "SessionError": 409,
    "CoordinationError": 409,
    "PodError": 409,
    "WorktreeError": 409,
    "TapeError": 409,
    "GitError": 409,
}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class RunnerRefused(ScrubjayError):
    """A runner has answered that it will not, or cannot."""

    def __init__(self, kinds: tuple[str, ...], message: str, hint: str | None) -> None:
        self.kinds = kinds
        super().__init__(message, hint=hint)


class NoRunner(ScrubjayError):
    """There is no machine to do it, or it is not clear which."""


class TapeBehind(ScrubjayError):
    """The server does not have as much of a tape as its runner."""

    def __init__(self, pod: str, offset: int) -> None:
        self.pod, self.offset = pod, offset
        super().__init__(f"the tape of pod {pod} is not here up to offset {offset}", hint="it is on its way: try again")


class TokenBound(ScrubjayError):
    """A runner has come with a token that is not its own."""


def kinds_of(error: ScrubjayError) -> tuple[str, ...]:
    """The names of an error's classes, the most special first."""
    if isinstance(error, RunnerRefused):
        return error.kinds
    return tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ScrubjayError))


def status_of(error: ScrubjayError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Refused):
        return error.status
    return next((_STATUS[kind] for kind in kinds_of(error) if kind in _STATUS), 500)


def code_of(error: ScrubjayError) -> str:
    """What programs call an error."""
    if isinstance(error, Refused):
        return error.code
    return _WORD.sub("_", kinds_of(error)[0]).lower()
