"""``scrubjay completion``: complete commands and pod names in your shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    \b
    bash:  eval "$(scrubjay completion bash)"      in ~/.bashrc
    zsh:   eval "$(scrubjay completion zsh)"       in ~/.zshrc
    fish:  scrubjay completion fish | source       in ~/.config/fish/config.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = ctx.find_root().command
    for program in ("scrubjay", "jay"):
        click.echo(completion(root, {}, program, f"_{program.upper()}_COMPLETE").source())
