"""``scrubjay notify``: who is told of what, and whether it arrives."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import cast

import click

from scrubjay.cli.client import Client, ServerUnreachable, pod_path
from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.errors import BadSetting
from scrubjay.fleet.notices import Message
from scrubjay.settings import mask_url
from scrubjay.tape.record import Json

_HOW = "set notify_urls in the settings file, or SCRUBJAY_NOTIFY"


@click.group("notify")
def command() -> None:
    """Notifications: try them, and choose the pods they are about."""


@command.command("test")
@click.option("--url", metavar="URL", help="Send to this Apprise URL instead of to those that are set up.")
@json_option
@pass_context
def test(context: Context, url: str | None, *, as_json: bool) -> int:
    """Send a message to every place that is set up and say which of them took it; exits with 1 unless all did."""
    urls = (url,) if url is not None else context.settings.notify_urls
    if not urls:
        raise BadSetting("there is nobody to notify", hint=_HOW)
    message = Message("done", "Scrubjay says hello", f"Notifications of {context.settings.runner_name} arrive here.")
    sent = [(mask_url(each), _send(each, message)) for each in urls]
    failures = [_outcome(outcome) for _, outcome in sent]
    rows = list(zip([service for service, _ in sent], failures, strict=True))
    if as_json:
        emit([{"service": service, "sent": failure is None, "error": failure} for service, failure in rows])
    else:
        for number, (service, failure) in enumerate(rows, 1):
            click.echo(f"{number}  {service}  {'sent' if failure is None else f'failed: {failure}'}")
    return 1 if any(failure is not None for failure in failures) else 0


def _send(url: str, message: Message) -> Future[str | None]:
    """Begin to send; all places are tried at once."""
    from scrubjay.server.outlet import deliver

    outcome: Future[str | None] = Future()
    # A thread of its own, which nobody waits for at exit: a service may never answer.
    threading.Thread(target=lambda: outcome.set_result(deliver(url, message)), daemon=True).start()
    return outcome


def _outcome(outcome: Future[str | None]) -> str | None:
    from scrubjay.server.outlet import SEND_WITHIN_S

    try:
        return outcome.result(SEND_WITHIN_S)
    except TimeoutError:
        return f"no answer within {SEND_WITHIN_S:g} s"


@command.command("mute")
@pod_argument
@json_option
@pass_context
def mute(context: Context, pod: str, *, as_json: bool) -> None:
    """Send no notifications of a pod any more."""
    set_muted(context.client, pod, muted=True)
    _confirm(pod, muted=True, as_json=as_json)


@command.command("unmute")
@pod_argument
@json_option
@pass_context
def unmute(context: Context, pod: str, *, as_json: bool) -> None:
    """Send notifications of a pod again."""
    set_muted(context.client, pod, muted=False)
    _confirm(pod, muted=False, as_json=as_json)


def _confirm(pod: str, *, muted: bool, as_json: bool) -> None:
    if as_json:
        emit({"pod": pod, "muted": muted})
    else:
        say(f"scrubjay: {'no more' if muted else 'again'} notifications of {pod}")


@command.command("list")
@json_option
@pass_context
def list_(context: Context, *, as_json: bool) -> None:
    """Show where notifications go, what they are about, and which pods are muted."""
    settings = context.settings
    services = [mask_url(url) for url in settings.notify_urls]
    muted = _muted_if_known(context.client)
    if as_json:
        emit({"services": services, "on": list(settings.notify_on), "muted": muted})
        return
    for number, service in enumerate(services, 1):
        click.echo(f"{number}  {service}  {' '.join(settings.notify_on)}")
    if not services:
        say(f"scrubjay: there is nobody to notify; {_HOW}")
    if muted:
        click.echo(f"muted: {' '.join(muted)}")
    elif muted is None:
        say("scrubjay: no server says which pods are muted")


def set_muted(client: Client, pod: str, *, muted: bool) -> None:
    """Have the server keep quiet about a pod, or not; ServerRefused if there is no such pod."""
    if muted:
        client.ask("PUT", pod_path(pod, "mute"), body={})
    else:
        client.delete(pod_path(pod, "mute"))


def _muted_if_known(client: Client) -> list[str] | None:
    """The muted pods by name; None if nobody says."""
    try:
        pods = cast(list[Json], client.get("/api/v1/pods"))
    except ServerUnreachable:
        return None
    if any("muted" not in pod for pod in pods):
        return None
    return [str(pod["name"]) for pod in pods if pod["muted"] is True]
