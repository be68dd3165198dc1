"""Settings from flags, environment and file, in that order; and what is said of those that cannot be used."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from scrubjay.errors import BadSetting
from scrubjay.settings import Settings, config_path, mask_url, read_settings
from tests.support.paths import ROOT
from tests.support.tables import every_row

_SECRET = "hunter2hunter2"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}


def _write(environ: dict[str, str], text: str | bytes) -> Path:
    path = config_path(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _refusal(environ: dict[str, str], config: Path | None = None) -> str:
    with pytest.raises(BadSetting) as refused:
        read_settings(environ, data=None, config=config)
    assert refused.value.hint
    return f"{refused.value}; {refused.value.hint}"


def test_without_anything_said_the_defaults_hold(environ: dict[str, str], tmp_path: Path) -> None:
    settings = read_settings(environ, data=None)

    own = tmp_path / "config" / "scrubjay" / "agents"
    assert settings == Settings(data=tmp_path / "state" / "scrubjay", agents=own)
    assert (settings.host, settings.port) == ("127.0.0.1", 8477)
    assert settings.runner_name == os.uname().nodename
    assert settings.notify_on == ("needs_you", "failed", "done", "deadlock", "starving")


def test_a_flag_wins_over_the_environment_and_that_over_the_file(environ: dict[str, str], tmp_path: Path) -> None:
    _write(environ, 'data = "/of/file"\nsync_ms = 300\nterm = "of-file"\nport = 1000\n')
    environ |= {"SCRUBJAY_DATA": "/of/environment", "SCRUBJAY_SYNC_MS": "400", "SCRUBJAY_PORT": ""}

    settings = read_settings(environ, data=tmp_path / "of-flag")
    assert settings.data == tmp_path / "of-flag"
    assert (settings.sync_ms, settings.term, settings.port) == (400, "of-file", 1000)
    assert read_settings(environ, data=None).data == Path("/of/environment")
    del environ["SCRUBJAY_DATA"]
    assert read_settings(environ, data=None).data == Path("/of/file")


def test_every_setting_can_stand_in_the_file_and_in_the_environment(environ: dict[str, str], tmp_path: Path) -> None:
    lines = {
        "data": '"rec"',
        "sync_ms": "5",
        "when_full": '"best_effort"',
        "term": '"vt100"',
        "mask": '["MY_LICENCE", "-GITHUB_TOKEN"]',
        "agents": '"my-agents"',
        "mcp": "false",
        "host": '"::1"',
        "port": "0",
        "names": '["Jay.Example.ORG", "[::1]"]',
        "tls_cert": '"cert.pem"',
        "tls_key": '"~/key.pem"',
        "runner_name": '"den"',
        "notify_urls": f'["json://{_SECRET}@localhost"]',
        "notify_on": '["done", "failed"]',
        "notify_done_after_s": "1",
        "notify_quiet_s": "0",
        "starving_after_s": "60",
        "lease_s": "30",
        "resume_within_days": "7",
        "capture_turns": "false",
        "summary_url": '"http://[::1]:11434/v1/"',
        "summary_model": '"llama3"',
        "summary_key_variable": '"MODEL_KEY"',
        "summarise_after_s": "0",
        "type_messages": '"all"',
        "log_format": '"json"',
        "log_level": '"debug"',
    }
    path = _write(environ, "".join(f"{name} = {value}\n" for name, value in lines.items()))

    read = read_settings(environ, data=None)
    assert read == Settings(
        data=path.parent / "rec",  # what a file says means the same from everywhere
        sync_ms=5,
        when_full="best_effort",
        term="vt100",
        mask=("MY_LICENCE", "-GITHUB_TOKEN"),
        agents=path.parent / "my-agents",
        mcp=False,
        host="::1",
        port=0,
        names=("jay.example.org", "::1"),
        tls_cert=path.parent / "cert.pem",
        tls_key=Path.home() / "key.pem",
        runner_name="den",
        notify_urls=(f"json://{_SECRET}@localhost",),
        notify_on=("failed", "done"),
        notify_done_after_s=1,
        notify_quiet_s=0,
        starving_after_s=60,
        lease_s=30,
        resume_within_days=7,
        capture_turns=False,
        summary_url="http://[::1]:11434/v1",
        summary_model="llama3",
        summary_key_variable="MODEL_KEY",
        summarise_after_s=0,
        type_messages="all",
        log_format="json",
        log_level="debug",
    )
    path.unlink()
    instead = {"summary_command"}  # of summary_url; it has a test of its own
    assert set(lines) | instead == {setting.name for setting in dataclasses.fields(Settings)}
    for name in lines:
        value: object = getattr(read, name)
        text = " ".join(cast(tuple[str, ...], value)) if isinstance(value, tuple) else str(value)
        environ["SCRUBJAY_NOTIFY" if name == "notify_urls" else f"SCRUBJAY_{name.upper()}"] = text
    assert read_settings(environ, data=None) == read


@every_row(
    ("text", "words"),
    [
        ("prot = 1", "there is no setting 'prot', which FILE has; did you mean port?"),
        ("[server]\nport = 1", "there is no setting 'server', which FILE has; settings are data, sync_ms"),
        ('port = "8477"', "port = '8477' in FILE is not a port; use 0 to 65535"),
        ("port = 70000", "port = 70000 in FILE is not a port"),
        ("sync_ms = true", "sync_ms = True in FILE is not a number of milliseconds; use 1 to 60000"),
        ("mcp = 1", "mcp = 1 in FILE is neither on nor off; use true or false"),
        ("when_full = 1", "when_full = 1 in FILE is not a way to go on; use pause or best_effort"),
        ('host = "http://x:1"', "host = 'http://x:1' in FILE is not an address"),
        ('names = "a"', "names = 'a' in FILE is not a list of texts"),
        ("names = [1]", "names = [1] in FILE is not a list of texts"),
        ('names = ["https://x"]', "has 'https://x', which is not a host name; give names alone"),
        ('notify_on = ["lunch"]', "has 'lunch', which is nothing to notify of; use any of needs_you, failed"),
        ('tls_key = "k"', "tls_key is set and tls_cert is not"),
        ("data = 3", "data = 3 in FILE is not a text"),
        ("port = ", "FILE is not TOML: Invalid value (at end of document)"),
        (b"term = '\xff'", "FILE is not TOML: 'utf-8' codec"),
        ('log_level = "loud"', "use debug or info or warning or error"),
        ('summary_command = "llm -m x"', "summary_command in FILE is not a list of texts; write them as"),
        ('summary_url = "http://u:p@host/v1"', "summary_url in FILE is not the address of an endpoint; use one like"),
        ('summary_url = "localhost:11434"', "summary_url in FILE is not the address of an endpoint"),
        ('summary_url = "http://host/v1"', "summary_url is set and summary_model is not; name the model"),
        ('summary_model = "x"', "summary_model is set and summary_url is not; set summary_url, or leave"),
        ('summary_key_variable = "KEY"', "summary_key_variable is set and summary_url is not"),
        (
            'summary_key_variable = "sk-123"',
            "summary_key_variable in FILE is not the name of a variable; give the name",
        ),
        ("summarise_after_s = -1", "summarise_after_s = -1 in FILE is not a number of seconds"),
        (
            'summary_command = ["llm"]\nsummary_url = "http://h/v1"\nsummary_model = "x"',
            "summary_command and summary_url are both set; set one of them, or neither",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_file_key_and_remedy(
    environ: dict[str, str], text: str | bytes, words: str
) -> None:
    path = _write(environ, text)

    assert words.replace("FILE", str(path)) in _refusal(environ)


def test_the_command_that_summarises_is_a_list_in_the_file_and_quoted_in_the_environment(
    environ: dict[str, str], tmp_path: Path
) -> None:
    path = _write(environ, 'summary_command = ["./sum.sh", "two words"]')
    assert read_settings(environ, data=None).summary_command == (str(path.parent / "sum.sh"), "two words")

    environ["SCRUBJAY_SUMMARY_COMMAND"] = "llm -s 'two words'"
    assert read_settings(environ, data=None).summary_command == ("llm", "-s", "two words")

    environ["SCRUBJAY_SUMMARY_COMMAND"] = f"llm '{_SECRET}"
    refusal = _refusal(environ)
    assert "SCRUBJAY_SUMMARY_COMMAND has a quote without its other half" in refusal
    assert _SECRET not in refusal


def test_a_bad_variable_is_named_and_hides_a_good_file(environ: dict[str, str]) -> None:
    _write(environ, "port = 1\n")
    environ["SCRUBJAY_PORT"] = "9" * 5000

    assert _refusal(environ).startswith("SCRUBJAY_PORT='999")


def test_a_file_that_was_named_must_be_there(environ: dict[str, str], tmp_path: Path) -> None:
    assert f"there is no settings file {tmp_path / 'x'}; check --config" in _refusal(environ, tmp_path / "x")
    environ["SCRUBJAY_CONFIG"] = str(tmp_path / "y")
    assert f"there is no settings file {tmp_path / 'y'}" in _refusal(environ)
    assert "cannot read settings from" in _refusal(environ, tmp_path)

    (tmp_path / "x").write_text("port = 7\n")
    assert read_settings(environ, data=None, config=tmp_path / "x").port == 7


@every_row(
    "urls", [f'["{_SECRET}"]', f'"json://{_SECRET}"', f'["json://ok", 3, "tgram://{_SECRET}"]', f'["json:/{_SECRET}"]']
)
def test_no_complaint_shows_a_notification_url(environ: dict[str, str], urls: str) -> None:
    path = _write(environ, f"notify_urls = {urls}\n")

    refusal = _refusal(environ)
    assert _SECRET not in refusal
    assert f"notify_urls in {path}" in refusal


def test_settings_shown_in_a_log_hold_no_notification_url(environ: dict[str, str]) -> None:
    environ["SCRUBJAY_NOTIFY"] = f"tgram://{_SECRET}/1 ntfy://{_SECRET}"
    settings = read_settings(environ, data=None)

    assert len(settings.notify_urls) == 2
    assert _SECRET not in repr(settings)
    assert [mask_url(url) for url in settings.notify_urls] == ["tgram://…", "ntfy://…"]
    assert mask_url(_SECRET) == "…"


def test_every_setting_says_what_it_means() -> None:
    source = (ROOT / "src" / "scrubjay" / "settings.py").read_text()

    for setting in dataclasses.fields(Settings):
        _, _, after = source.partition(f"\n    {setting.name}: ")
        assert after.split("\n")[1].startswith('    """'), setting.name


def test_the_reader_of_toml_is_loaded_for_those_who_have_a_file_only(environ: dict[str, str]) -> None:
    code = "import sys, os; from scrubjay.settings import read_settings; read_settings(os.environ, data=None)"
    show = f"{code}; print('tomllib' in sys.modules)"

    def loads() -> str:
        return subprocess.run(
            [sys.executable, "-P", "-c", show], env=environ, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert loads() == "False"
    _write(environ, "port = 1\n")
    assert loads() == "True"
