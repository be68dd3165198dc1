"""Hooks of Codex on its command line, in a way that it runs them without asking. Pure.

Codex runs a hook only once its person has trusted it, which it keeps as a hash of the hook in their configuration. A
hook that comes with the command line can bring its hash along: then this one is trusted, this time, and no other. The
switch that turns the check off would trust the hooks of a repository as well. How the hash is made is internal to Codex
and was checked with 0.166; should it change, Codex asks at its start whether to trust the hooks.
"""

from __future__ import annotations

import hashlib
import json
import re

TIMEOUT_S = 3  # the most that it allows for all events; a hook takes one at most
_LAYER = "/<session-flags>/config.toml"  # what it calls the command line
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def hooks_table(events: list[str], command: str) -> str:
    """The value of its setting ``hooks``, as TOML: a shell command for each event, and that it is trusted."""
    quoted = json.dumps(command, ensure_ascii=False)
    hooks = [f'{event}=[{{hooks=[{{type="command",command={quoted},timeout={TIMEOUT_S}}}]}}]' for event in events]
    trusted = [f'"{_LAYER}:{_label(event)}:0:0"={{trusted_hash="{hook_hash(event, command)}"}}' for event in events]
    return f"{{{','.join(hooks)},state={{{','.join(trusted)}}}}}"


def hook_hash(event: str, command: str) -> str:
    """The hash by which it knows a hook."""
    identity = {
        "event_name": _label(event),
        "hooks": [{"async": False, "command": command, "timeout": TIMEOUT_S, "type": "command"}],
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _label(event: str) -> str:
    return _CAPITAL.sub("_", event).lower()
