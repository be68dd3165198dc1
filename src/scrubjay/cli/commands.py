"""The list of commands. Each lives in a module of its own that is imported when it is used."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import click

import scrubjay
from scrubjay.cli.context import Context
from scrubjay.settings import read_settings

# In the order a person meets them; the module is scrubjay.cli.<name>_command.
_NAMES = (
    "run",
    "ps",
    "attach",
    "send",
    "stop",
    "logs",
    "screen",
    "replay",
    "search",
    "mark",
    "export",
    "import",
    "verify",
    "seal",
    "reindex",
    "rm",
    "completion",
)


class Commands(click.Group):
    """The group that loads a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _NAMES:
            return None
        command = import_module(f"scrubjay.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        return command

    @classmethod
    def build(cls) -> Commands:
        """The whole command line."""
        return cls(
            name="scrubjay",
            callback=_prepare,
            params=[
                click.Option(
                    ["--data"],
                    type=click.Path(path_type=Path, file_okay=True),
                    metavar="DIR",
                    help="Keep recordings here instead of in the state directory.",
                ),
                click.Option(
                    ["--version"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_print_version,
                    help="Print the version and exit.",
                ),
            ],
            help="Record any terminal program, look back at any of it, and lose nothing.",
            context_settings={"help_option_names": ["-h", "--help"]},
            no_args_is_help=True,
        )


@click.pass_context
def _prepare(ctx: click.Context, data: Path | None) -> None:
    ctx.obj = Context(read_settings(os.environ, data=data.absolute() if data is not None else None))


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        click.echo(f"scrubjay {scrubjay.__version__}")
        ctx.exit()
