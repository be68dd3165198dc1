"""The command line as a whole: what is run, and how it is said that it failed."""

from __future__ import annotations

import os
import sys

import click

from scrubjay.cli.commands import Commands
from scrubjay.errors import BadInput, ScrubjayError


def run() -> None:
    """Run the command that was asked for and exit."""
    try:
        code = _commands().main(prog_name=_program_name(), standalone_mode=False)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        _complain(error.format_message().rstrip("."), _usage_hint(error))
        sys.exit(2)
    except ScrubjayError as error:
        _complain(str(error), error.hint)
        sys.exit(2 if isinstance(error, BadInput) else 1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; flushing what is left at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        _complain(what, None)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _commands() -> click.Group:
    return Commands.build()


def _program_name() -> str:
    name = os.path.basename(sys.argv[0])
    return name if name in ("scrubjay", "jay") else "scrubjay"


def _complain(message: str, hint: str | None) -> None:
    """One line: what is wrong, and what to do about it."""
    line = f"{message}; {hint}" if hint is not None else message
    click.echo("scrubjay: " + " ".join(line.split()), err=True)


def _usage_hint(error: click.ClickException) -> str | None:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"see '{error.ctx.command_path} --help'"
    return None
