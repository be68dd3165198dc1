"""Messages to people through Apprise, one place at a time.

A place is an Apprise URL, and that is a secret: nothing here logs, raises or returns any of it but its scheme.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import unquote

import structlog

from scrubjay.fleet.notices import Message
from scrubjay.server.drop_oldest import DropOldest
from scrubjay.settings import NoticeKind, mask_url

if TYPE_CHECKING:
    from apprise import AppriseAsset

SEND_WITHIN_S = 20.0  # services answer within one; mail servers may take ten
_WAITING_MAX = 100  # messages for a place that does not answer; the oldest are dropped
_TYPES: dict[NoticeKind, str] = {
    "needs_you": "warning",
    "failed": "failure",
    "done": "success",
    "deadlock": "failure",
    "starving": "warning",
}
_NOISY = ("apprise", "urllib3", "requests")  # at some level each of them logs addresses with the secrets in them

_thread = threading.local()
log = structlog.get_logger()


def deliver(url: str, message: Message) -> str | None:
    """Send a message and wait; None if it was taken, else why not, without anything of the URL."""
    complaints: list[str] = []
    try:
        import apprise  # 0.3 s, most of it in this thread

        _hush()
        place = apprise.Apprise.instantiate(url, asset=_asset())  # pyright: ignore[reportUnknownMemberType]
        if place is None:
            return "Apprise does not understand the URL"
        _thread.sending = True
        sent = apprise.Apprise(place, asset=_asset()).notify(  # pyright: ignore[reportUnknownMemberType]
            body=message.body,
            title=message.title,
            notify_type=_TYPES[message.kind],
            body_format=apprise.NotifyFormat.TEXT.value,
            log_callback=lambda entry, _place: complaints.append(entry.message),
            log_level=logging.WARNING,
        )
    except Exception as error:  # noqa: BLE001 - a hundred plugins, and none may end the server or tell the URL
        return _without(url, f"{type(error).__name__}: {error}")
    finally:
        _thread.sending = False
    if sent:
        return None
    return _without(url, complaints[-1]) if complaints else "the service did not take it"


@cache
def _asset() -> AppriseAsset:
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        app_id="Scrubjay",
        app_desc="Scrubjay",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        async_mode=False,
        secure_logging=True,
        allow_templates=False,  # the text is an agent's
        storage_mode=PersistentStoreMode.MEMORY,
        service_timeout=0,  # with one it sends in threads that are waited for when the process ends
    )


@cache
def _hush() -> None:
    """Let nobody else hear what these libraries log."""
    for name in _NOISY:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.WARNING if name == "apprise" else logging.CRITICAL + 1)
        logger.addHandler(logging.NullHandler())  # or Python would print it
        logger.addFilter(lambda _record: getattr(_thread, "sending", False))


def _without(url: str, text: str) -> str:
    """A text in which no part of a URL is left."""
    scheme, _, rest = url.partition("://")
    parts = {part for form in (rest, unquote(rest)) for part in (form, *re.split(r"[/:@?&=,;+\s]+", form))}
    parts -= {scheme, "localhost", "yes", "no", "true", "false", ""}
    for part in sorted(parts, key=len, reverse=True):
        text = re.sub(re.escape(part), "…", text, flags=re.IGNORECASE) if len(part) > 2 else text
    return " ".join(text.split())[:200]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to try."""

    send_within_s: float = SEND_WITHIN_S
    retry_first_s: float = 2.0
    retry_most_s: float = 60.0
    give_up_after_s: float = 600.0  #: then it is history


class Outlet:
    """One place and the messages that wait for it; a place that does not answer holds up no other."""

    def __init__(
        self,
        url: str,
        *,
        random: Random,
        pace: Pace,
        deliver: Callable[[str, Message], str | None] = deliver,
    ) -> None:
        self._url, self._random, self._pace, self._deliver = url, random, pace, deliver
        self.service = mask_url(url)
        self._waiting: DropOldest[Message] = DropOldest(_WAITING_MAX)
        self._sending: threading.Thread | None = None

    def put(self, message: Message) -> None:
        """Send it as soon as possible; never waits."""
        if self._waiting.put(message):
            log.warning("notice.dropped", service=self.service, waiting=_WAITING_MAX)

    async def run(self) -> None:
        """Send what is put here, until cancelled."""
        while True:
            await self._send(await self._waiting.get())

    async def _send(self, message: Message) -> None:
        """Try until it is taken, or is no news any more."""
        loop, pace = asyncio.get_running_loop(), self._pace
        give_up = loop.time() + pace.give_up_after_s
        attempt = 0
        while True:
            failure = await self._attempt(message)
            attempt += 1
            if failure is None:
                log.info("notice.sent", service=self.service, kind=message.kind, attempts=attempt)
                return
            delay_s = min(pace.retry_most_s, pace.retry_first_s * 2 ** (attempt - 1)) * self._random.uniform(0.5, 1.0)
            if loop.time() + delay_s > give_up:
                log.error("notice.given_up", service=self.service, kind=message.kind, attempts=attempt, error=failure)
                return
            log.warning("notice.not_sent", service=self.service, attempts=attempt, error=failure)
            await asyncio.sleep(delay_s)

    async def _attempt(self, message: Message) -> str | None:
        if self._sending is not None and self._sending.is_alive():
            # A thread cannot be ended, and a second one would hang as well.
            return "still trying to send the one before"
        loop = asyncio.get_running_loop()
        told: asyncio.Future[str | None] = loop.create_future()

        def tell(failure: str | None) -> None:
            if not told.done():
                told.set_result(failure)

        def send() -> None:
            failure = self._deliver(self._url, message)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(tell, failure)

        # Not a pool's, whose threads would be waited for when the server ends.
        self._sending = threading.Thread(target=send, name="notify", daemon=True)
        self._sending.start()
        try:
            async with asyncio.timeout(self._pace.send_within_s):
                return await told
        except TimeoutError:
            return f"no answer within {self._pace.send_within_s:g} s"
