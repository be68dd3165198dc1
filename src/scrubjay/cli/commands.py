"""The list of commands. Each lives in a module of its own that is imported when it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click

import scrubjay
from scrubjay.cli.context import Context
from scrubjay.errors import BadSetting
from scrubjay.settings import read_settings

# In the order a person meets them; the module is scrubjay.cli.<name>_command.
_NAMES = (
    "up",
    "run",
    "resume",
    "sessions",
    "memory",
    "ps",
    "attach",
    "send",
    "stop",
    "logs",
    "screen",
    "explain",
    "checkpoints",
    "diff",
    "fork",
    "waits",
    "why",
    "topology",
    "bind",
    "bindings",
    "accept",
    "reject",
    "unbind",
    "channel",
    "tell",
    "inbox",
    "handoff",
    "replay",
    "search",
    "mark",
    "export",
    "import",
    "detect",
    "verify",
    "seal",
    "reindex",
    "rm",
    "login",
    "token",
    "server",
    "runner",
    "notify",
    "service",
    "agents",
    "mcp",
    "hook",
    "doctor",
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
                    ["--config"],
                    type=click.Path(path_type=Path),
                    metavar="FILE",
                    help="Read settings from here instead of from the configuration directory.",
                ),
                click.Option(
                    ["--server"],
                    metavar="URL",
                    help="Ask the server there, with the token in SCRUBJAY_TOKEN, instead of this machine.",
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
def _prepare(ctx: click.Context, data: Path | None, config: Path | None, server: str | None) -> None:
    try:
        ctx.obj = Context(
            read_settings(os.environ, data=data, config=config),
            config=config,
            server=server or os.environ.get("SCRUBJAY_SERVER") or None,
            # Taken out, so that no process we start has it in its environment.
            token=os.environ.pop("SCRUBJAY_TOKEN", "").strip() or None,
        )
    except BadSetting as error:
        if ctx.invoked_subcommand != "doctor":
            raise
        # The one command that is asked what is wrong must be able to say it.
        ctx.obj = Context(read_settings(_essential(os.environ), data=data), bad_setting=error, config=config)


def _essential(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings, but for where the recordings are."""
    return {
        name: value for name, value in environ.items() if not name.startswith("SCRUBJAY_") or name == "SCRUBJAY_DATA"
    } | {"SCRUBJAY_CONFIG": os.devnull}


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        click.echo(f"scrubjay {scrubjay.__version__}")
        ctx.exit()
