"""``scrubjay service``: let systemd start the server and keep it running."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.cli.doctor.machine import lingers
from scrubjay.cli.service_unit import MARK, UNIT, render_unit
from scrubjay.errors import BadInput, ServiceFailed, ServiceUnavailable
from scrubjay.settings import Settings, variable

_WITHIN_S = 60.0
_SHOWN = ("LoadState", "UnitFileState", "ActiveState", "SubState", "Result", "MainPID", "ExecMainStatus")


@click.group("service")
def command() -> None:
    """Let systemd start the server at login or boot and keep it running."""


@command.command("install")
@click.option("--print", "only_print", is_flag=True, help="Print the unit and change nothing.")
@click.option("--force", is_flag=True, help="Replace a unit of the same name that was written by somebody else.")
@json_option
@pass_context
def install(context: Context, *, only_print: bool, force: bool, as_json: bool) -> None:
    """Write a systemd user unit, enable it, and start it. Pods survive its stops and restarts."""
    unit = _render(context)
    if only_print:
        click.echo(unit, nl=False)
        return
    _require_manager()
    path = _unit_path()
    changed = _write(path, unit, force=force)
    _systemctl("daemon-reload")
    was_active = _show()["ActiveState"] == "active"
    _systemctl("enable", "--now", UNIT)
    if was_active and changed:
        _systemctl("restart", UNIT)  # a new unit file means nothing to a server that runs
    _mention_unseen_settings()
    if not lingers():
        say("scrubjay: it ends with your last logout; to keep it and start it at boot: loginctl enable-linger")
    if as_json:
        emit({"unit": str(path), "changed": changed, **_describe(_show())})
    else:
        say(f"scrubjay: {path} is enabled and started; see 'scrubjay service status'")


@command.command("uninstall")
@json_option
def uninstall(*, as_json: bool) -> None:
    """Stop the server and remove its unit. Pods go on, and so do their recordings."""
    _require_manager()
    path = _unit_path()
    there = path.exists()
    if there:
        if not path.read_text().startswith(MARK):
            raise BadInput(f"{path} was not written by Scrubjay", hint="look at it, and remove it yourself")
        _systemctl("disable", "--now", UNIT)
        path.unlink()
        _systemctl("daemon-reload")
    if as_json:
        emit({"unit": str(path), "removed": there})
    else:
        say(f"scrubjay: {path} is removed; pods go on" if there else f"scrubjay: there is no {path}")


@command.command("status")
@json_option
def status(*, as_json: bool) -> int:
    """Say whether the service is installed and running; exits with 1 unless it runs."""
    _require_manager()
    seen = _describe(_show())
    if as_json:
        emit(seen)
    elif not seen["installed"]:
        say("scrubjay: the service is not installed; try: scrubjay service install")
    else:
        pid = f", process {seen['pid']}" if seen["pid"] else ""
        click.echo(
            f"{seen['state']} ({seen['detail']}){pid}, {'starts' if seen['enabled'] else 'does not start'} by itself"
        )
        if not seen["active"]:
            say(f"scrubjay: see why: journalctl --user -u {UNIT} -n 50")
    return 0 if seen["active"] else 1


def _render(context: Context) -> str:
    named = context.config or (Path(os.environ["SCRUBJAY_CONFIG"]) if os.environ.get("SCRUBJAY_CONFIG") else None)
    config = ["--config", str(named.expanduser().absolute())] if named is not None else []
    argv = [sys.executable, "-P", "-m", "scrubjay", *config, "--data", str(context.settings.data), "up"]
    return render_unit(argv, search_path=os.environ.get("PATH", os.defpath))


def _unit_path() -> Path:
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    return (folder if folder.is_absolute() else Path.home() / ".config") / "systemd" / "user" / UNIT


def _write(path: Path, unit: str, *, force: bool) -> bool:
    """Whether the unit is another than before."""
    try:
        before = path.read_text()
    except FileNotFoundError:
        before = None
    if before == unit:
        return False
    if before is not None and not before.startswith(MARK) and not force:
        raise BadInput(f"{path} was not written by Scrubjay", hint="look at it, then give --force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(unit)
    temporary.replace(path)
    return True


def _mention_unseen_settings() -> None:
    # Where the recordings are stands on the command line of the unit.
    names = [variable(setting.name) for setting in fields(Settings) if setting.name != "data"]
    unseen = [name for name in names if os.environ.get(name)]
    if unseen:
        say(f"scrubjay: the service does not see {', '.join(unseen)}; write such settings to config.toml")


def _require_manager() -> None:
    """ServiceUnavailable unless there is a user manager to talk to."""
    try:
        asked = _run("show-environment")
    except FileNotFoundError:
        raise ServiceUnavailable("systemctl is not installed") from None
    if asked.returncode != 0:
        raise ServiceUnavailable(_last_line(asked))


def _systemctl(*args: str) -> str:
    done = _run(*args)
    if done.returncode != 0:
        raise ServiceFailed(" ".join(args), _last_line(done))
    return done.stdout


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", "--user", "--no-pager", *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceFailed(" ".join(args), f"no answer within {_WITHIN_S:g} s") from None


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"


def _show() -> dict[str, str]:
    """What systemd knows of the unit; of one that is not there it knows that."""
    shown = _systemctl("show", "--property", ",".join(_SHOWN), UNIT)
    known = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return {name: known.get(name, "") for name in _SHOWN}


def _describe(shown: dict[str, str]) -> dict[str, object]:
    return {
        "installed": shown["LoadState"] == "loaded",
        "enabled": shown["UnitFileState"] == "enabled",
        "active": shown["ActiveState"] == "active",
        "state": shown["ActiveState"],
        "detail": shown["SubState"]
        if shown["Result"] in ("", "success")
        else f"{shown['SubState']}, {shown['Result']}",
        "pid": int(shown["MainPID"]) if shown["MainPID"].isdigit() else 0,
    }
