"""What the documentation says is there, is there."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import cast, get_args

import click
import pytest

from scrubjay.cli.commands import Commands
from scrubjay.cli.mcp_command import SESSION_VARIABLE
from scrubjay.fleet.memories import TEXT_MAX, TOOLS_MAX, WORD_MAX
from scrubjay.fleet.sessions import Reason, warn
from scrubjay.ids import SessionId
from scrubjay.server.mcp.endpoint import all_tools
from scrubjay.server.request_context import (
    CONNECTION_HEADER,
    EPOCH_HEADER,
    EPOCH_META,
    SESSION_HEADER,
    SESSION_META,
)
from scrubjay.server.rest.session_models import Memory
from scrubjay.settings import Settings
from scrubjay.tape.format import Kind, encode_record, encode_segment_header, tape_salt
from tests.support.paths import DOCS, ROOT


def _commands() -> dict[str, click.Command]:
    group = Commands.build()
    context = click.Context(group)
    return {name: command for name in group.list_commands(context) if (command := group.get_command(context, name))}


def test_every_setting_is_on_the_settings_page() -> None:
    page = (DOCS / "settings.md").read_text()

    for field in dataclasses.fields(Settings):
        assert f"| `{field.name}` |" in page


def test_every_command_and_option_is_on_the_commands_page() -> None:
    lines = (DOCS / "commands.md").read_text().splitlines()
    missing: list[str] = []
    for name, command in _commands().items():
        row = next((line for line in lines if line.startswith(f"| `{name} ")), None)
        options = [parameter.opts for parameter in command.params if isinstance(parameter, click.Option)]
        missing += [name] if row is None else [f"{name} {opts}" for opts in options if not any(o in row for o in opts)]

    assert not missing, "\n".join(missing)


def test_every_command_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"^\$ scrubjay (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))

    assert len(shown) >= 10
    assert shown <= set(_commands())


def test_every_section_a_module_cites_exists() -> None:
    headings = re.findall(r"^## (\d+)\.", (DOCS / "tape-format.md").read_text(), re.MULTILINE)
    cited: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for match in re.finditer(r"docs/tape-format\.md, sections? ([\d, and]+)", path.read_text()):
            cited.update(re.findall(r"\d+", match[1]))

    assert cited
    assert cited <= set(headings)


def test_the_example_bytes_of_the_specification_are_what_the_code_writes() -> None:
    page = (DOCS / "tape-format.md").read_text()
    tape = "abcdefghijklmnopqrstuvwxyz"
    record = encode_record(Kind.OUTPUT, 1_500_000, "hi é\r\n".encode(), offset=85, salt=tape_salt(tape))

    shown = _hex_blocks(page)
    assert record in shown
    assert encode_segment_header(tape, 1, 0) in shown


def _hex_blocks(page: str) -> list[bytes]:
    blocks: list[bytes] = []
    for block in re.findall(r"```\n(.*?)```", page, re.DOTALL):
        lines = [re.match(r"((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?$", line) for line in block.splitlines()]
        found = [line[1] for line in lines if line is not None]
        if len(found) == len(lines):
            blocks.append(bytes.fromhex("".join(found)))
    return blocks


def test_every_promise_names_a_test_that_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "promises.md").read_text())

    missing = [f"{file}::{test}" for file, test in named if not _has_test(ROOT / file, test)]
    assert len(named) >= 12
    assert not missing, "\n".join(missing)


def _has_test(path: Path, test: str) -> bool:
    return path.exists() and re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE) is not None


def test_every_tool_and_what_it_takes_is_on_the_page_on_tools() -> None:
    page = (DOCS / "mcp.md").read_text().partition("## Tools")[2]
    rows = dict(re.findall(r"`(\w+)(\([^)]*\))?`", page))

    for tool in all_tools():
        assert tool.name in rows, tool.name
        for name in re.findall(r"\w+", rows[tool.name]):
            assert name in (*tool.parameters.model_fields, "or"), f"{tool.name} does not take {name}"


def test_every_reason_is_on_the_page_on_deployment_with_the_warning_that_is_given() -> None:
    page = (DOCS / "shared-deployment.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]* \| (NOT RESUMED: .*) \|$", page, re.MULTILINE)
    explained = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| [^|]* \|$", page, re.MULTILINE)

    assert {reason for reason, _ in rows} == set(get_args(Reason)) == set(explained)
    assert page.count("NOT RESUMED") == len(rows)
    for reason, sentence in rows:
        assert sentence == _warning_like(sentence, cast(Reason, reason))


def _warning_like(sentence: str, reason: Reason) -> str:
    """What somebody is told for a reason, with the names and numbers of an example."""
    asked = "yesterday" if reason == "malformed" else "a" * 26
    holder, free = re.search(r" is held by (\w+)", sentence), re.search(r" is free (\d+) s", sentence)
    held_by, for_s = (holder and holder[1]), (free and int(free[1]))
    return warn(reason, asked, SessionId("b" * 26), held_by=held_by, for_s=for_s)


def test_every_carrier_of_a_session_is_on_the_pages_that_tell_of_it() -> None:
    for page in ("shared-deployment.md", "mcp.md"):
        text = (DOCS / page).read_text()
        for name in (SESSION_HEADER, CONNECTION_HEADER, EPOCH_HEADER, SESSION_META, EPOCH_META, SESSION_VARIABLE):
            assert f"`{name}`" in text, f"{page} does not tell of {name}"


def test_every_field_and_limit_of_a_memory_is_on_the_page_on_memory() -> None:
    page = (DOCS / "memory.md").read_text()

    for field in Memory.model_fields.keys() - {"session_id"}:
        assert re.search(rf"^\| (`\w+`, )*`{field}`(, `\w+`)* \|", page, re.MULTILINE), field
    assert f"| {TEXT_MAX:,} characters each |" in page
    assert f"| {TOOLS_MAX}, each of {WORD_MAX} characters |" in page


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.needs("git")
def test_the_project_speaks_of_itself_only() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        path = ROOT / name
        if path.suffix in (".md", ".py", ".toml", "") and path.is_file() and path.name != "test_docs.py":
            text = path.read_text(errors="replace")
            assert "/work/" not in text, name
            assert "/root/" not in text, name
