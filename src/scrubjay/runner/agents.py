"""Agents that can be started by name: the command, and how it takes its first prompt. Pure."""

from __future__ import annotations

from scrubjay.errors import BadInput

# How each takes a first prompt and stays interactive; as the agents' own help says.
_PROMPT: dict[str, tuple[str, ...]] = {
    "claude": (),
    "codex": (),
    "gemini": ("-i",),
    "opencode": ("--prompt",),
    "qwen": ("-i",),
    "copilot": ("-i",),
}
_WITHOUT_PROMPT = ("aider",)

AGENTS = (*_PROMPT, *_WITHOUT_PROMPT)


def agent_command(name: str, prompt: str | None) -> tuple[str, ...]:
    """The command that starts an agent, with a first prompt if there is one."""
    if name not in AGENTS:
        raise BadInput(f"there is no agent {name!r}", hint=f"known are {', '.join(AGENTS)}; or give a command instead")
    if prompt is None:
        return (name,)
    if name not in _PROMPT:
        raise BadInput(f"{name} takes no first prompt", hint="send it when it is ready: scrubjay send POD … --enter")
    if prompt.startswith("-"):
        prompt = " " + prompt  # not to be taken for an option
    return (name, *_PROMPT[name], prompt)
