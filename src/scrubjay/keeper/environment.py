"""What the agent finds in its environment. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARGV_VARIABLE = "SCRUBJAY_ARGV"  # the command as a JSON list, if there is a secret in it that pod.json must not hold

FOLDER_VARIABLE = "SCRUBJAY_POD_FOLDER"  # by which an agent's hooks find its keeper
SET_VARIABLE = "SCRUBJAY_SET"  # names of the variables that were set for this agent and are not its children's

# Set by an agent, multiplexer or terminal for its own children. Inside a pod they are lies: an agent
# that sees them refuses to start, joins the wrong session, or draws for a terminal that is not there.
_FOREIGN = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "COLUMNS",
        "CURSOR_AGENT",
        "CURSOR_TRACE_ID",
        "GEMINI_CLI",
        "ITERM_SESSION_ID",
        "LINES",
        "OPENCODE",
        "OPENCODE_PID",
        "QWEN_CODE",
        "STY",
        "TERMCAP",
        "TERM_FEATURES",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "VTE_VERSION",
        "WINDOWID",
        "WT_PROFILE_ID",
        "WT_SESSION",
    }
)
_FOREIGN_EXACT_FAMILIES = (
    "ALACRITTY_",
    "CODEX_SANDBOX",
    "CODEX_THREAD_",
    "GHOSTTY_",
    "KITTY_",
    "KONSOLE_",
    "SCRUBJAY_",
    "VSCODE_",
    "WEZTERM_",
    "ZELLIJ",
)
# Not the whole CLAUDE_CODE_ family: most of it is a person's own configuration.
_CLAUDE_CHILD = frozenset(
    {"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"}
)


def person_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What was inherited, without what was set for the agent of a pod that this is inside of."""
    foreign = inherited.get(SET_VARIABLE, "").split()
    return {name: value for name, value in inherited.items() if name not in foreign and name != SET_VARIABLE}


def agent_environment(
    inherited: dict[str, str],
    *,
    pod: str,
    name: str,
    session: str,
    term: str,
    folder: str,
    set_for_it: Sequence[str] = (),
) -> dict[str, str]:
    """What was inherited, without what belongs to another terminal or agent, and with the pod's own.

    ``set_for_it`` names variables among them that were made for this agent alone.
    """
    kept = {
        key: value
        for key, value in inherited.items()
        if key not in _FOREIGN and key not in _CLAUDE_CHILD and not key.startswith(_FOREIGN_EXACT_FAMILIES)
    }
    own = {
        "TERM": term,
        "COLORTERM": "truecolor",
        "SCRUBJAY_POD": pod,
        "SCRUBJAY_POD_NAME": name,
        "SCRUBJAY_SESSION": session,
        FOLDER_VARIABLE: folder,
    }
    return kept | own | ({SET_VARIABLE: " ".join(set_for_it)} if set_for_it else {})
