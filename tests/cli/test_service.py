"""The systemd unit, read by systemd's own checker; and what ``service`` asks a manager to do.

The manager is a stand-in that notes what it was asked. That ``KillMode=process`` leaves a unit's other processes alone
was seen with a real one (systemd 252), through a restart and a stop of the unit.
"""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scrubjay.cli.service_unit import MARK, quote, render_unit
from tests.support.cli import Cli

_MANAGER = """\
#!/bin/sh
# Notes what it is asked; "state" says what it knows of the unit.
test "$1 $2" = "--user --no-pager" || exit 64
shift 2
echo "$@" >> "{folder}/asked"
case "$1" in
show) cat "{folder}/state" ;;
enable|restart) test -e "{folder}/broken" && {{ echo "Job failed. See logs." >&2; exit 1; }}
    printf 'LoadState=loaded\\nUnitFileState=enabled\\nActiveState=active\\nSubState=running\\nMainPID=42\\n' \
        > "{folder}/state" ;;
esac
exit 0
"""
_UNKNOWN = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nMainPID=0\nResult=success\n"


class _Manager:
    def __init__(self, cli: Cli) -> None:
        self.folder = cli.work / "manager"
        self.folder.mkdir()
        (self.folder / "state").write_text(_UNKNOWN)
        program = self.folder / "systemctl"
        program.write_text(_MANAGER.format(folder=self.folder))
        program.chmod(0o755)
        cli.env["PATH"] = f"{self.folder}:{cli.env['PATH']}"

    def asked(self) -> list[str]:
        """What was asked since this was last called, but for questions."""
        path = self.folder / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return [line for line in lines if not line.startswith("show")]


@pytest.fixture
def manager(cli: Cli) -> _Manager:
    return _Manager(cli)


def _unit_path(cli: Cli) -> Path:
    return cli.work / ".config" / "systemd" / "user" / "scrubjay.service"


def _parse(unit: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read_string(unit)
    return parser


def test_printing_the_unit_needs_no_systemd_and_changes_nothing(cli: Cli) -> None:
    cli.env["PATH"] = str(cli.work / "nothing")
    unit = _parse(cli("service", "install", "--print").stdout.decode())

    assert unit["Service"]["ExecStart"] == f"{sys.executable} -P -m scrubjay --data {cli.data} up"
    assert unit["Service"]["Environment"] == f"PATH={cli.env['PATH']}"
    assert unit["Service"]["KillMode"] == "process"
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Install"]["WantedBy"] == "default.target"
    assert not _unit_path(cli).exists()


def test_agents_inherit_no_hardening_that_would_break_them(cli: Cli) -> None:
    service = _parse(cli("service", "install", "--print").stdout.decode())["Service"]

    assert {"KillMode", "OOMPolicy", "TasksMax", "LimitCORE"} <= set(service)
    for name in service:
        assert not name.startswith(("Private", "Protect", "Restrict", "SystemCall", "NoNew", "UMask", "Capab")), name


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize(
    "name", ["plain", "with space", "50%u", "a$HOME", "qu\"ote's", "back\\slash", "tab\there", "äöü;"]
)
def test_systemd_reads_the_unit_as_it_is_meant_whatever_the_paths_hold(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    program = folder / "python"
    program.symlink_to(sys.executable)
    unit = tmp_path / "scrubjay.service"
    unit.write_text(render_unit([str(program), "--data", str(folder), "up"], search_path=f"{folder}:/bin"))

    # It complains if the program, as it reads it, is not there; and of every line it does not know.
    checked = subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.needs("systemd-analyze")
def test_the_checker_would_notice_a_path_that_is_not_quoted(tmp_path: Path) -> None:
    unit = tmp_path / "scrubjay.service"
    unit.write_text(render_unit(["/no/such/program"], search_path="/bin"))
    checked = subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "/no/such/program" in checked.stderr


@given(st.text(min_size=1), st.booleans())
def test_any_word_is_read_back_as_it_was(word: str, dollars: bool) -> None:  # noqa: FBT001
    assume("\0" not in word)
    quoted = quote(word, dollars=dollars)

    assert "\n" not in quoted
    assert _read_back(quoted, dollars=dollars) == word


def _read_back(quoted: str, *, dollars: bool) -> str:
    """As systemd.syntax(7), systemd.unit(5) and systemd.service(5) say."""
    if quoted.startswith('"'):
        assert re.fullmatch(r'"(?:[^"\\]|\\x[0-9a-f]{2}|\\["\\])*"', quoted)
        quoted = quoted[1:-1]
    else:
        assert not re.search(r"[\s\"'\\;]", quoted)
    data = re.sub(
        rb"\\(?:x(..)|(.))",
        lambda escape: bytes.fromhex(escape[1].decode()) if escape[1] else escape[2],
        quoted.encode("utf-8", "surrogateescape"),
    )
    text = data.decode("utf-8", "surrogateescape").replace("%%", "%")
    return text.replace("$$", "$") if dollars else text


def test_variables_and_specifiers_are_never_put_in() -> None:
    assert quote("a$b%c", dollars=True) == "a$$b%%c"
    assert quote("PATH=$x") == "PATH=$x"  # in Environment= a dollar means itself
    assert quote("") == '""'


def test_installing_writes_the_unit_and_starts_it(cli: Cli, manager: _Manager) -> None:
    done = cli("service", "install")

    assert manager.asked() == ["daemon-reload", "enable --now scrubjay.service"]
    assert _unit_path(cli).read_text() == cli("service", "install", "--print").stdout.decode()
    assert done.stdout == b""
    assert b"is enabled and started" in done.stderr
    assert b"loginctl enable-linger" in done.stderr
    assert cli("service", "status").stdout == b"active (running), process 42, starts by itself\n"


def test_installing_again_changes_nothing_and_a_changed_unit_is_taken_up(cli: Cli, manager: _Manager) -> None:
    cli("service", "install")
    manager.asked()
    cli("service", "install")
    assert "restart scrubjay.service" not in manager.asked()

    (cli.work / "my.toml").write_text("port = 9000\n")
    cli("--config", "my.toml", "service", "install")
    assert manager.asked()[-1] == "restart scrubjay.service"
    assert f"--config {cli.work}/my.toml --data" in _unit_path(cli).read_text()


def test_a_unit_of_somebody_else_is_not_replaced_unless_forced(cli: Cli, manager: _Manager) -> None:
    path = _unit_path(cli)
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/true\n")

    assert "was not written by Scrubjay; look at it, then give --force" in cli.error("service", "install", code=2)
    assert "ExecStart=/bin/true" in path.read_text()
    cli("service", "install", "--force")
    assert path.read_text().startswith(MARK)


def test_settings_that_only_this_shell_has_are_mentioned_by_name_alone(cli: Cli, manager: _Manager) -> None:
    cli.env["SCRUBJAY_NOTIFY"] = "json://hunter2"
    done = cli("service", "install")
    del cli.env["SCRUBJAY_NOTIFY"]

    assert b"the service does not see SCRUBJAY_NOTIFY; write such settings to config.toml" in done.stderr
    assert b"hunter2" not in done.stderr + done.stdout
    assert "hunter2" not in _unit_path(cli).read_text()


def test_uninstalling_stops_and_removes_it_once(cli: Cli, manager: _Manager) -> None:
    cli("service", "install")
    manager.asked()

    assert b"is removed; pods go on" in cli("service", "uninstall").stderr
    assert manager.asked() == ["disable --now scrubjay.service", "daemon-reload"]
    assert not _unit_path(cli).exists()
    assert b"there is no" in cli("service", "uninstall").stderr
    assert manager.asked() == []


def test_a_unit_of_somebody_else_is_not_removed(cli: Cli, manager: _Manager) -> None:
    _unit_path(cli).parent.mkdir(parents=True)
    _unit_path(cli).write_text("[Service]\n")

    assert "was not written by Scrubjay" in cli.error("service", "uninstall", code=2)
    assert _unit_path(cli).read_text() == "[Service]\n"
    assert not [line for line in manager.asked() if line.startswith("disable")]


def test_what_systemd_refuses_is_said_with_where_to_look(cli: Cli, manager: _Manager) -> None:
    (manager.folder / "broken").touch()

    error = cli.error("service", "install", code=1)
    assert "systemctl --user enable --now scrubjay.service: Job failed. See logs.; see: journalctl --user" in error


def test_a_service_that_is_not_installed_or_has_failed_is_not_running(cli: Cli, manager: _Manager) -> None:
    assert b"is not installed; try: scrubjay service install" in cli("service", "status", code=1).stderr

    failed = (
        "LoadState=loaded\nUnitFileState=disabled\nActiveState=failed\nSubState=failed\nResult=exit-code\nMainPID=0\n"
    )
    (manager.folder / "state").write_text(failed)
    done = cli("service", "status", code=1)
    assert done.stdout == b"failed (failed, exit-code), does not start by itself\n"
    assert b"journalctl --user -u scrubjay.service" in done.stderr


@pytest.mark.parametrize("there", [True, False])
def test_without_a_user_manager_it_says_so_and_how_to_go_on(cli: Cli, *, there: bool) -> None:
    folder = cli.work / "bin"
    folder.mkdir()
    if there:
        (folder / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
        (folder / "systemctl").chmod(0o755)
    cli.env["PATH"] = str(folder)
    for action in ("install", "uninstall", "status"):
        error = cli.error("service", action, code=1)

        assert ("Failed to connect to bus" if there else "systemctl is not installed") in error
        assert "--print" in error
    assert not _unit_path(cli).exists()
