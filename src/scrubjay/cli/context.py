"""What every command has at hand, and the arguments several of them share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

from scrubjay.errors import BadInput, BadSetting
from scrubjay.pods.home import Home
from scrubjay.settings import Settings, read_settings, user_name

if TYPE_CHECKING:
    from scrubjay.cli.client import Client

_Function = TypeVar("_Function", bound=Callable[..., object])


class Context:
    """One call of the command line."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        bad_setting: BadSetting | None = None,
        server: str | None = None,
        token: str | None = None,
    ) -> None:
        self.settings = settings
        self.config = config  #: the settings file that was named on the command line
        self.bad_setting = bad_setting  #: why the settings are not what was asked for; only 'doctor' gets to see it
        self.server = server  #: the address of a server elsewhere, to be asked instead of this machine
        self.token = token  #: what to show it
        self.home = Home(settings.data)

    @property
    def client(self) -> Client:
        """The server that was named with --server, or else the one of this machine."""
        from scrubjay.cli.client import Client

        if self.server is None:
            return self.local_client()
        token = self.token
        if token is None:
            raise BadInput(
                f"{self.server} lets nobody in without a token",
                hint="'scrubjay token create' on that machine makes one; put it into SCRUBJAY_TOKEN",
            )
        return Client(self.server, token, self.settings.data / "server.sock")

    def local_client(self, data: Path | None = None) -> Client:
        """The server of this machine, whether it runs or not."""
        from scrubjay.cli.client import Client

        return Client(None, None, (data if data is not None else self.settings.data) / "server.sock")

    def require_here(self, command: str) -> None:
        """BadInput for a command that is about this machine's own files, where a server was named."""
        if self.server is not None:
            hint = "leave --server out, or run it there"
            raise BadInput(f"'{command}' is about the recordings of this machine", hint=hint)

    def with_recordings_of(self, *pods: str) -> tuple[Context, list[str]]:
        """Where the recordings of pods are at hand, and what each pod is called there.

        That is here, as they were given; or what was brought here from the server that was named, by id: only the
        server knows which pod was meant.
        """
        if self.server is None:
            return self, list(pods)
        from scrubjay.cli.remote import bring_recordings

        context, names = Context(self.settings, config=self.config), list[str]()
        for pod in pods:
            context.home, name = bring_recordings(self, pod)
            names.append(name)
        return context, names

    @property
    def author(self) -> str:
        """Who types, as the tape names them."""
        name = user_name()
        return "person" if name is None else f"person:{name}"


pass_context = click.make_pass_decorator(Context)


def json_option(function: _Function) -> _Function:
    """``--json``, the same on every command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def complete_pods(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of pods that begin so."""
    import os

    given = ctx.find_root().params
    home = Home(read_settings(os.environ, data=given.get("data"), config=given.get("config")).data)
    newest = {pod.name: pod for pod in home.pods()}
    return [
        CompletionItem(name, help=" ".join(pod.argv)[:60])
        for name, pod in newest.items()
        if name.startswith(incomplete)
    ]


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of pods, and ids of sessions once some of one is typed, that begin so."""
    import os

    found = complete_pods(ctx, param, incomplete)
    if not incomplete:
        return found
    given = ctx.find_root().params
    home = Home(read_settings(os.environ, data=given.get("data"), config=given.get("config")).data)
    newest = {pod.session: pod for pod in home.pods()}
    return found + [
        CompletionItem(session, help=f"the session of {pod.name}")
        for session, pod in newest.items()
        if session.startswith(incomplete)
    ]


def complete_agents(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of agents that begin so."""
    import os

    from scrubjay.agents.library import Library

    given = ctx.find_root().params
    own = read_settings(os.environ, data=given.get("data"), config=given.get("config")).agents
    return [name for name in Library(own).names() if name.startswith(incomplete)]


def pod_argument(function: _Function) -> _Function:
    """A pod, by name, id or unique prefix of either."""
    return click.argument("pod", metavar="POD", shell_complete=complete_pods)(function)


def pods_argument(function: _Function) -> _Function:
    """Any number of pods."""
    return click.argument("pods", metavar="[POD]...", nargs=-1, shell_complete=complete_pods)(function)


def emit(data: object) -> None:
    """Print data for a program."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Tell a person something."""
    click.echo(text, err=True)


@contextmanager
def progress(label: str, total: int) -> Generator[Callable[[int], None]]:
    """A bar on stderr for work of ``total`` bytes, if somebody is looking."""
    if not sys.stderr.isatty() or total < 8 << 20:  # what takes less than a blink needs no bar
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr, update_min_steps=1 << 20) as bar:
        yield bar.update


def human_bytes(count: int) -> str:
    """A size for people."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def human_span(seconds: float) -> str:
    """A span of time for people, in its two largest units."""
    whole = max(0, int(seconds))
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit}{name}{rest}{smaller_name}" if rest else f"{whole // unit}{name}"
    return f"{whole}s"
