"""``scrubjay notify``: who is told of what, and whether it arrives."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import cast

import click

from scrubjay.cli.client import Client, ServerUnreachable, pod_path
from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, pod_argument, say
from scrubjay.errors import BadInput, BadSetting
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
@click.option("--for", "raw_span", metavar="TIME", help="Send them again after this: 30m, 2h, 1d12h.")
@json_option
@pass_context
def mute(context: Context, pod: str, raw_span: str | None, *, as_json: bool) -> None:
    """Send no notifications of a pod any more."""
    for_s = _span_s(raw_span) if raw_span is not None else None
    set_muted(context.client, pod, muted=True, for_s=for_s)
    _confirm(pod, muted=True, for_s=for_s, as_json=as_json)


def _span_s(raw: str) -> float:
    from scrubjay.replay.instants import FromStart, parse_instant

    span = parse_instant(raw)
    if not isinstance(span, FromStart) or not span.us:
        raise BadInput(f"{raw!r} is not a span of time", hint="it is like 30m, 2h or 1d12h")
    return span.us / 1e6


@command.command("unmute")
@pod_argument
@json_option
@pass_context
def unmute(context: Context, pod: str, *, as_json: bool) -> None:
    """Send notifications of a pod again."""
    set_muted(context.client, pod, muted=False)
    _confirm(pod, muted=False, for_s=None, as_json=as_json)


def _confirm(pod: str, *, muted: bool, for_s: float | None, as_json: bool) -> None:
    if as_json:
        emit({"pod": pod, "muted": muted, "for_s": for_s})
    else:
        span = f" for {human_span(for_s)}" if for_s is not None else ""
        say(f"scrubjay: {'no more' if muted else 'again'} notifications of {pod}{span}")


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
        click.echo(f"muted: {', '.join(map(_describe, muted))}")
    elif muted is None:
        say("scrubjay: no server says which pods are muted")


def _describe(muted: Json) -> str:
    name, until_us = str(muted["name"]), muted["until_us"]
    return f"{name} for {human_span(until_us / 1e6 - time.time())}" if isinstance(until_us, int) else name


def set_muted(client: Client, pod: str, *, muted: bool, for_s: float | None = None) -> None:
    """Have the server keep quiet about a pod, or not; ServerRefused if there is no such pod."""
    if muted:
        client.ask("PUT", pod_path(pod, "mute"), body={"for_s": for_s} if for_s is not None else {})
    else:
        client.delete(pod_path(pod, "mute"))


def _muted_if_known(client: Client) -> list[Json] | None:
    """The muted pods, and until when they are; None if nobody says."""
    try:
        pods = cast(list[Json], client.get("/api/v1/pods"))
    except ServerUnreachable:
        return None
    if any("muted" not in pod for pod in pods):
        return None
    return [{"name": pod["name"], "until_us": pod.get("muted_until_us")} for pod in pods if pod["muted"] is True]
