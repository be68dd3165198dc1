"""What is run for an agent: its command, what a person adds, and what makes it report to us."""

from __future__ import annotations

import json
from typing import cast

import pytest

from scrubjay.agents.codex_hooks import hook_hash
from scrubjay.agents.endpoint import McpEndpoint
from scrubjay.agents.launch import Launch, Place, launch_agent, launch_command, resume_agent
from scrubjay.agents.library import Library
from scrubjay.agents.manifest import Manifest, parse_manifest
from scrubjay.errors import BadInput

_ID = "5e0b7e0c-3b8a-4a83-9d0a-0123456789ab"
_MCP = McpEndpoint("http://127.0.0.1:8477/mcp", "a-token")
_PLACE = Place(folder="/pods/p/agent", hook="python hook.py", environ={"HOME": "/home/ann"})
_WITH_MCP = Place(folder="/pods/p/agent", hook="python hook.py", environ={}, mcp=_MCP)


def _find(name: str) -> Manifest:
    return Library(None).find(name)


def _start(name: str, *arguments: str, prompt: str | None = None, place: Place = _PLACE) -> Launch:
    return launch_agent(_find(name), place, arguments=arguments, prompt=prompt, new_conversation=_ID)


def _json(launch: Launch, path: str) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(launch.files[path]))


def test_claude_is_given_a_conversation_a_prompt_and_a_plugin_that_reports() -> None:
    launch = _start("claude", "--model", "opus", prompt="fix it")

    assert launch.argv == (
        *("claude", "--plugin-dir", "/pods/p/agent/scrubjay", "--session-id", _ID, "fix it"),
        *("--model", "opus"),
    )
    assert launch.conversation == _ID
    assert launch.arguments == ("--model", "opus")
    assert launch.environment == {}
    assert _json(launch, "scrubjay/.claude-plugin/plugin.json")["name"] == "scrubjay"
    hooks = cast("dict[str, object]", _json(launch, "scrubjay/hooks/hooks.json")["hooks"])
    assert hooks["Stop"] == [{"hooks": [{"type": "command", "command": "python hook.py", "timeout": 5}]}]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", ("--resume", "abc")),
        ("claude", ("--resume=abc",)),
        ("claude", ("-c",)),
        ("claude", ("--model", "opus", "--session-id", "abc")),
        ("gemini", ("--resume", "latest")),
        ("qwen", ("--continue",)),
        ("copilot", ("--resume",)),
        ("aider", ("--chat-history-file", "mine.md")),
    ],
)
def test_who_says_which_conversation_it_is_is_given_no_other(name: str, said: tuple[str, ...]) -> None:
    launch = _start(name, *said)

    assert launch.conversation is None
    assert not any(_ID in word for word in launch.argv)
    assert launch.argv[-len(said) :] == said


@pytest.mark.parametrize(("name", "said"), [("claude", "mcp"), ("codex", "login"), ("opencode", "auth")])
def test_a_command_that_begins_no_conversation_is_left_as_it_is(name: str, said: str) -> None:
    launch = _start(name, said, "list")

    assert launch.argv == (name, said, "list")
    assert launch.files == {}
    with pytest.raises(BadInput, match="takes no first prompt"):
        _start(name, said, prompt="hello")


def test_codex_runs_without_its_daemon_and_trusts_our_hooks_alone() -> None:
    launch = _start("codex", "--search", prompt="fix it")
    hooks = launch.argv[3]

    assert launch.argv[:3] == ("codex", "--no-daemon", "-c")
    assert launch.argv[4:] == ("fix it", "--search")
    assert hooks.startswith('hooks={SessionStart=[{hooks=[{type="command",command="python hook.py",timeout=3}]}]')
    assert f'config.toml:stop:0:0"={{trusted_hash="{hook_hash("Stop", "python hook.py")}"}}' in hooks
    assert launch.conversation is None  # its hooks will tell


@pytest.mark.parametrize(
    ("event", "hashed"),
    [  # as "hooks/list" of codex 0.166.0 says them
        ("SessionStart", "e40688e342bc653567f4d9e8590f9b0ceb640df45804b65d9361fbe9f641edf1"),
        ("PreToolUse", "da03feb7f1fd42297538d8c7e881a7071bb5410a2f8757d195e2eabf2e580d09"),
        ("Stop", "53dac8c5feaef3fa564d088de5a55337f522ebea375fc486f76cc50440d96e19"),
        ("Interrupt", "461557090d383e4523d199ab0e90511c3fb32340392f729fc9796e6b2b485219"),
    ],
)
def test_the_hash_of_a_hook_is_the_one_that_codex_computes(event: str, hashed: str) -> None:
    assert hook_hash(event, "true") == f"sha256:{hashed}"


def test_a_prompt_follows_a_command_of_the_agent() -> None:
    assert _start("codex", "resume", "--last", prompt="go on").argv[-3:] == ("resume", "--last", "go on")


def test_settings_of_codex_are_toml_whatever_is_in_the_path_of_the_hook() -> None:
    import tomllib

    place = Place(folder="/f", hook="""'/my "odd" \\path/python' hook.py""", environ={})
    hooks = tomllib.loads(_start("codex", place=place).argv[3])

    command = hooks["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert command == place.hook
    assert hooks["hooks"]["state"]["/<session-flags>/config.toml:stop:0:0"]["trusted_hash"] == hook_hash(
        "Stop", command
    )


def test_opencode_reads_its_plugin_from_the_pods_folder() -> None:
    launch = _start("opencode", prompt="fix it")

    assert launch.argv == ("opencode", "--prompt", "fix it")
    assert launch.environment == {"OPENCODE_CONFIG": "/pods/p/agent/opencode.json"}
    assert _json(launch, "opencode.json")["plugin"] == ["file:///pods/p/agent/scrubjay.js"]
    assert 'const COMMAND = "python hook.py"' in launch.files["scrubjay.js"]


def test_a_variable_that_a_person_has_set_is_theirs() -> None:
    place = Place(folder="/f", hook="h", environ={"OPENCODE_CONFIG": "/home/ann/special.json"})

    assert _start("opencode", place=place).environment == {}


def test_the_prompt_of_an_agent_that_takes_none_at_its_start_is_typed() -> None:
    launch = _start("aider", prompt="fix it")

    assert launch.type_when_ready == "fix it"
    assert "fix it" not in launch.argv
    assert launch.argv[-2:] == ("--chat-history-file", f".aider.chat.history.{_ID}.md")


@pytest.mark.parametrize("prompt", ["-x", "--help", "doctor", "mcp", "--resume"])
def test_a_prompt_is_taken_neither_for_an_option_nor_for_a_command(prompt: str) -> None:
    assert _start("claude", prompt=prompt).argv[-1] == " " + prompt


def test_a_prompt_with_braces_is_passed_as_it_is() -> None:
    assert _start("claude", prompt="use {folder} and {nothing}").argv[-1] == "use {folder} and {nothing}"


def test_an_agent_that_takes_no_prompt_at_all_says_so() -> None:
    manifest = parse_manifest("mine", {"start": {"command": ["mine"]}}, "mine.toml")

    with pytest.raises(BadInput, match="mine takes no first prompt"):
        launch_agent(manifest, _PLACE, arguments=(), prompt="hello", new_conversation=_ID)


@pytest.mark.parametrize(
    ("name", "resumed"),
    [
        ("claude", ("--resume", _ID)),
        ("codex", ("resume", _ID)),
        ("gemini", ("--resume", _ID)),
        ("opencode", ("--session", _ID)),
        ("aider", ("--chat-history-file", f".aider.chat.history.{_ID}.md", "--restore-chat-history")),
        ("qwen", ("--resume", _ID)),
        ("copilot", (f"--resume={_ID}",)),
    ],
)
def test_an_agent_goes_on_with_a_conversation(name: str, resumed: tuple[str, ...]) -> None:
    launch = resume_agent(_find(name), _PLACE, arguments=("--x",), prompt=None, conversation=_ID)

    assert launch.argv[-len(resumed) - 1 : -1] == resumed
    assert launch.argv[-1] == "--x"
    assert launch.conversation == _ID
    assert launch.files == _start(name).files  # it reports as it did


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("--resume", "old", "--model", "opus"), ("--model", "opus")),
        (("--resume=old", "--model", "opus"), ("--model", "opus")),
        (("-c", "--model", "opus"), ("--model", "opus")),
        (("--model", "opus", "--resume"), ("--model", "opus")),
        (("mcp", "list"), ()),
    ],
)
def test_a_conversation_that_was_asked_for_once_is_not_asked_for_again(
    given: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    launch = resume_agent(_find("claude"), _PLACE, arguments=given, prompt=None, conversation=_ID)

    assert launch.arguments == kept


def test_a_prompt_for_a_conversation_that_goes_on_is_typed_where_the_agent_takes_none() -> None:
    launch = resume_agent(_find("opencode"), _PLACE, arguments=(), prompt="and now?", conversation=_ID)

    assert launch.argv == ("opencode", "--session", _ID)
    assert launch.type_when_ready == "and now?"


def test_an_agent_without_a_way_to_resume_says_so() -> None:
    manifest = parse_manifest("mine", {"start": {"command": ["mine"]}}, "mine.toml")

    with pytest.raises(BadInput, match="cannot go on with a conversation"):
        resume_agent(manifest, _PLACE, arguments=(), prompt=None, conversation=_ID)


def test_a_command_that_is_an_agent_gets_its_hooks_and_nothing_else() -> None:
    launch = launch_command(_find("claude"), _PLACE, ("/opt/bin/claude", "--verbose", "do it"))

    assert launch.argv == ("/opt/bin/claude", "--plugin-dir", "/pods/p/agent/scrubjay", "--verbose", "do it")
    assert launch.agent == "claude"
    assert launch.conversation is None
    assert "scrubjay/hooks/hooks.json" in launch.files


def test_a_command_of_an_agent_that_begins_no_conversation_is_left_alone() -> None:
    assert launch_command(_find("codex"), _PLACE, ("codex", "login")).argv == ("codex", "login")


# The tools that a pod's agent is offered.


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "opencode", "qwen"])
def test_an_endpoint_is_registered_for_this_pod_by_the_name_of_the_variable_that_holds_its_token(name: str) -> None:
    launch = _start(name, place=_WITH_MCP)
    said = " ".join([*launch.argv, *launch.files.values()])

    assert _MCP.url in said
    assert "JAY_MCP_TOKEN" in said
    assert _MCP.token not in said
    assert _MCP.environment == {"JAY_MCP_URL": _MCP.url, "JAY_MCP_TOKEN": _MCP.token}


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "opencode", "qwen"])
def test_without_an_endpoint_nothing_is_said_of_one(name: str) -> None:
    launch = _start(name)
    said = " ".join([*launch.argv, *launch.files.values(), *launch.environment])

    assert "mcp" not in said.lower()


def test_the_parts_of_one_file_become_one_object() -> None:
    settings = _json(_start("qwen", place=_WITH_MCP), "settings.json")

    assert set(settings) == {"hooks", "mcpServers"}


def test_options_of_an_endpoint_do_not_swallow_the_prompt() -> None:
    launch = _start("claude", prompt="hello", place=_WITH_MCP)

    assert "--mcp-config=/pods/p/agent/mcp.json" in launch.argv  # with a blank it would take the prompt for a file
    assert _json(launch, "mcp.json") == {
        "mcpServers": {
            "scrubjay": {
                "type": "http",
                "url": _MCP.url,
                "headers": {"Authorization": "Bearer ${JAY_MCP_TOKEN}"},
                "alwaysLoad": True,
            }
        }
    }


def test_a_token_is_not_shown_by_accident() -> None:
    assert _MCP.token not in repr(_WITH_MCP)
