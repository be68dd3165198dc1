"""Whoever makes summaries: a command of this machine, or a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from scrubjay.errors import BadSetting, ScrubjayError
from scrubjay.fleet.summaries import TEXT_MAX
from scrubjay.fleet.summary_prompt import Prompt
from scrubjay.fleet.untrusted import one_line
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.settings import Settings

MAKE_WITHIN_S = 300.0  # a small machine's own model takes minutes for what is given to it
ANSWER_MAX_BYTES = 1 << 20
_WHY_MAX = 250  # characters
_CUT = "\n[… the rest was left out: the summary was too long]"
# Some models say first what they think.
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


class SummariserFailed(ScrubjayError):
    """No summary was made this time."""


class Summariser(Protocol):
    """Makes one summary at a time."""

    @property
    def name(self) -> str:
        """Who it is, for people."""
        ...

    @property
    def model(self) -> str | None:
        """The model it asks, if that is known."""
        ...

    async def make(self, prompt: Prompt) -> str:
        """A summary; SummariserFailed says why there is none."""
        ...


def make_summariser(settings: Settings, environ: Mapping[str, str]) -> Summariser | None:
    """The one that settings name; None if they name none. BadSetting if its key is not in the environment."""
    if settings.summary_command:
        from scrubjay.server.sessions.summary_command import CommandSummariser

        return CommandSummariser(settings.summary_command, environ)
    if settings.summary_url is None:
        return None
    from scrubjay.server.sessions.summary_endpoint import EndpointSummariser

    assert settings.summary_model is not None, "settings are checked where they are read"
    key = _read_key(settings.summary_key_variable, environ)
    return EndpointSummariser(settings.summary_url, settings.summary_model, key)


def tidy(answer: str) -> str:
    """What somebody has answered, as a summary; SummariserFailed if it says nothing."""
    text = _THOUGHT.sub("", answer, count=1) if _THOUGHT.match(answer) else answer
    text = text.encode("utf-8", "replace").decode().strip()
    if not text:
        raise SummariserFailed("it has answered nothing")
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - len(_CUT)] + _CUT


def shown(why: str) -> str:
    """Words of somebody else, as a reason: one line, without keys."""
    return one_line(mask_keys(why), _WHY_MAX)


def _read_key(name: str | None, environ: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    key = environ.get(name, "").strip()
    if not key:
        raise BadSetting(
            f"summary_key_variable names {name}, which the server's environment does not have",
            hint="set it where the server is started, or leave summary_key_variable out",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadSetting(f"what {name} has is not a key", hint="it may have no blanks and no other than plain letters")
    return key
