"""What an agent finds in its environment."""

from __future__ import annotations

import pytest

from scrubjay.keeper.environment import agent_environment


def _inside(inherited: dict[str, str]) -> dict[str, str]:
    return agent_environment(inherited, pod="p", name="n", session="s", term="xterm-256color", folder="/f")


def test_a_pod_adds_itself_and_its_terminal() -> None:
    assert _inside({}) == {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "SCRUBJAY_POD": "p",
        "SCRUBJAY_POD_NAME": "n",
        "SCRUBJAY_SESSION": "s",
        "SCRUBJAY_POD_FOLDER": "/f",
    }


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "EDITOR", "TERMINFO"],
)
def test_what_a_person_set_is_kept(name: str) -> None:
    assert _inside({name: "value"})[name] == "value"


@pytest.mark.parametrize(
    "name",
    [
        "TMUX",
        "TMUX_PANE",
        "STY",
        "COLUMNS",
        "LINES",
        "TERM_PROGRAM",
        "VTE_VERSION",
        "KITTY_WINDOW_ID",
        "WEZTERM_PANE",
        "GHOSTTY_RESOURCES_DIR",
        "VSCODE_INJECTION",
        "ZELLIJ",
        "ZELLIJ_SESSION_NAME",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "GEMINI_CLI",
        "SCRUBJAY_DATA",
        "SCRUBJAY_WHEN_FULL",
    ],
)
def test_what_belongs_to_another_terminal_agent_or_pod_is_left_out(name: str) -> None:
    assert name not in _inside({name: "value"})


def test_a_pod_in_a_pod_is_its_own() -> None:
    outer = _inside({})

    inner = agent_environment(outer, pod="p2", name="n2", session="s2", term="dumb", folder="/f2")

    assert (inner["SCRUBJAY_POD"], inner["SCRUBJAY_POD_NAME"], inner["SCRUBJAY_SESSION"]) == ("p2", "n2", "s2")
    assert inner["TERM"] == "dumb"


def test_what_was_inherited_is_not_changed() -> None:
    inherited = {"TMUX": "x", "PATH": "/bin"}

    _inside(inherited)

    assert inherited == {"TMUX": "x", "PATH": "/bin"}
