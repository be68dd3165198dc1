"""``scrubjay doctor``: is everything here that is needed, and is it safe?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import click

from scrubjay.agents.library import Library
from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.cli.doctor.files import check_directory, check_permissions, check_settings_file
from scrubjay.cli.doctor.finding import Finding, ok, problem
from scrubjay.cli.doctor.machine import check_limits, check_notifications, check_server, check_systemd
from scrubjay.cli.doctor.pods import check_pods
from scrubjay.cli.doctor.programs import check_agent, check_engine, check_git, check_sqlite, check_versions
from scrubjay.settings import config_path

_Check = Callable[[], list[Finding]]
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Make recordings private again and remove what dead keepers left.")
@json_option
@pass_context
def command(context: Context, *, fix: bool, as_json: bool) -> int:
    """Look at everything Scrubjay needs and say what is wrong and what to do. Exits with 1 if there is a problem."""
    found = _examine(context, fix=fix)
    problems = sum(finding.verdict == "problem" for finding in found)
    warnings = sum(finding.verdict == "warning" for finding in found)
    if as_json:
        emit({"problems": problems, "warnings": warnings, "findings": [dataclasses.asdict(each) for each in found]})
    else:
        for finding in found:
            _print(finding)
        say(f"scrubjay: {_count(problems, 'problem')}, {_count(warnings, 'warning')}")
    return 1 if problems else 0


def _examine(context: Context, *, fix: bool) -> list[Finding]:
    from concurrent.futures import ThreadPoolExecutor

    settings, data = context.settings, context.settings.data
    repaired = [check_permissions(data, fix=fix)]  # before the directory is looked at, which it may repair
    checks: list[_Check] = [
        check_versions,
        lambda: [_check_settings(context)],
        lambda: check_directory(data),
        lambda: repaired,
        lambda: check_pods(context.home, fix=fix),
        lambda: [check_git()],
        lambda: [check_engine()],
        check_sqlite,
        lambda: check_server(settings),
        check_limits,
        lambda: [check_systemd()],
        lambda: [check_notifications(settings)],
    ]
    # At once: most of the time goes into waiting for other programs.
    library = Library(settings.agents)
    names = library.names()
    with ThreadPoolExecutor(len(checks) + len(names)) as examiners:
        agents = [examiners.submit(check_agent, library, name) for name in names]
        examined = [examiners.submit(check) for check in checks]
        found = [finding for one in examined for finding in one.result()]
        here = [finding for one in agents if (finding := one.result()) is not None]
    return found + (here or [ok("agents", f"none of {', '.join(names)} is on your PATH; any other program will do")])


def _check_settings(context: Context) -> Finding:
    if context.bad_setting is not None:
        return problem("settings", f"{context.bad_setting}; defaults are looked at", context.bad_setting.hint or "")
    return check_settings_file(config_path(os.environ, context.config), context.settings)


def _print(finding: Finding) -> None:
    verdict = click.style(f"{finding.verdict:<8}", fg=_COLOURS[finding.verdict])
    click.echo(f"{verdict} {finding.check:<18} {_printable(finding.says)}")
    if finding.remedy is not None:
        click.echo(f"{'':<8} {'':<18} → {_printable(finding.remedy)}")


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
