"""What a runner tells its server, over whichever connection there is at the moment.

Live bytes are sent from memory in the same turn of the loop in which they came; what a server has missed is read from
the tapes in a thread, a portion at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import assert_never

import structlog

import scrubjay
from scrubjay.errors import RunnerTooOld, ScrubjayError
from scrubjay.ids import PodId
from scrubjay.runner.requests import carry_out, type_at_once
from scrubjay.runner.runner import Runner
from scrubjay.runner.screens import Heard
from scrubjay.runner.tended import Tended, showable
from scrubjay.tape.raw_bytes import TapeBytes as TapeReader
from scrubjay.wire import replication
from scrubjay.wire.messages import (
    PROTOCOL,
    Answer,
    Ask,
    Called,
    Diverged,
    Fault,
    Found,
    FromRunner,
    FromServer,
    Hello,
    Later,
    Offer,
    Ping,
    PodChanged,
    PodGone,
    Pong,
    Progress,
    Refused,
    Restart,
    Rewind,
    Roster,
    TapeBytes,
    Type,
    UnknownRequest,
    Watch,
    Welcome,
)

_CALL_MAX = 1000  # characters of a notification
_CALLS_MAX = 8  # notifications of one moment; a flood of them, or of bells, says no more
_READERS = 8  # tapes that are kept open between two portions

log = structlog.get_logger()


class RunnerUnwelcome(Exception):
    """The server will not have this runner as it is."""


class Uplink:
    """The runner's side of the conversation."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sender = replication.Sender(random.random)
        self._send: Callable[[FromRunner], None] | None = None
        self._show: Callable[[PodId, int, bytes], None] | None = None
        self._reading = False  # a portion is being read from the tapes
        self._waking: asyncio.TimerHandle | None = None
        self._readers: dict[PodId, TapeReader] = {}  # one is used at a time
        self._tasks: set[asyncio.Task[None]] = set()
        runner.on_changed = self._pod_changed
        runner.on_gone = self._pod_gone
        runner.on_recorded = self._recorded
        runner.on_grew = self._tape_grew
        runner.on_called = self._called

    # The connection.

    async def connect(
        self,
        send: Callable[[FromRunner], None],
        *,
        show: Callable[[PodId, int, bytes], None] | None = None,
        mcp_url: str | None = None,
    ) -> None:
        """A connection stands: introduce the machine and all its pods.

        A server of the same process may be shown what is recorded before it is sent; what it is sent, it knows then.
        ``mcp_url`` is where agents of this machine find the server's tools.
        """
        await self._runner.found_all.wait()
        self.disconnect()
        self._send, self._show = send, show
        runner = self._runner
        runner.mcp_url = mcp_url
        send(
            Hello(
                protocol=PROTOCOL,
                version=scrubjay.__version__,
                runner=runner.id,
                name=runner.name,
                host=runner.host,
            )
        )
        send(Roster(pods=tuple(tended.report() for tended in runner.pods.values())))

    def disconnect(self) -> None:
        """The connection is gone."""
        self._send = self._show = None
        self._sender.disconnected()
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def hear(self, message: FromServer) -> None:
        """Take in what the server says; RunnerUnwelcome if it wants no more of us."""
        sender = self._sender
        match message:
            case Ask():
                self._asked(message)
                return
            case Welcome():
                sender.connected({})
            case Found():
                sender.found(PodId(message.pod), replication.Have(message.offset, message.fingerprint))
            case Progress():
                sender.acknowledged(PodId(message.pod), replication.Ack(message.have, message.kept))
            case Rewind():
                sender.rewind(PodId(message.pod), message.offset)
            case Later():
                sender.retry_later(PodId(message.pod), message.offset, self._runner.clock.monotonic_us())
            case Diverged():
                log.error("tape.diverged", pod=message.pod, offset=message.offset, why=message.why)
                sender.refused(PodId(message.pod))
            case Watch():
                sender.watch([PodId(pod) for pod in message.pods])
            case Ping():
                self._say(Pong())
            case Refused():
                raise RunnerUnwelcome(message.reason)
            case _:
                assert_never(message)
        self._pump()

    # What happens here.

    def _pod_changed(self, tended: Tended) -> None:
        self._say(PodChanged(pod=tended.report()))
        if tended.complete and tended.report().process == "lost":
            # What its keeper wrote last and did not sync may be other bytes now.
            self._sender.restart(tended.pod.id)
        self._tape_grew(tended)

    def _pod_gone(self, pod: PodId) -> None:
        self._sender.forget(pod)
        if not self._reading and (reader := self._readers.pop(pod, None)) is not None:
            reader.close()
        self._say(PodGone(pod=pod))

    def _recorded(self, pod: PodId, offset: int, data: bytes) -> bool:
        """Show what was recorded, if the server is that near; whether it is."""
        if self._show is None:
            return False
        self._show(pod, offset, data)
        return True

    def _tape_grew(self, tended: Tended) -> None:
        self._sender.grew(tended.pod.id, tended.record_end, synced=tended.synced, complete=tended.complete)
        self._pump()

    def _called(self, tended: Tended, heard: Heard) -> None:
        pod = tended.pod.id
        for effect in [effect for effect in heard.effects if effect.kind == "notification"][-_CALLS_MAX:]:
            title, body = (part.decode("utf-8", "replace")[:_CALL_MAX] for part in (effect.title, effect.data))
            self._say(Called(pod=pod, offset=heard.offset, kind="notification", title=title, body=body))
        if any(effect.kind == "bell" for effect in heard.effects):
            self._say(Called(pod=pod, offset=heard.offset, kind="bell"))

    def _say(self, message: FromRunner) -> None:
        if self._send is not None:
            self._send(message)

    # Tapes.

    def _pump(self) -> None:
        """Send what is due, as far as it is in memory."""
        if self._reading or self._send is None:
            return
        while (step := self._sender.next(self._runner.clock.monotonic_us())) is not None:
            if not self._take(step):
                return
        self._wake_later()

    def _take(self, step: replication.Step) -> bool:
        """Carry out one step; False if it has to wait for the disk."""
        match step:
            case replication.Portion():
                tended = self._runner.pods.get(step.pod)
                if tended is None:
                    self._sender.forget(step.pod)
                    return True
                data = tended.recent.read(step.offset, step.limit) if step.limit else b""
                if data is None:
                    self._read(self._read_portion(tended, step))
                    return False
                self._send_portion(step, data)
            case replication.Offer():
                self._say(Offer(pod=step.pod))
            case replication.Check():
                self._read(self._check(step))
                return False
            case replication.Restart():
                self._say(Restart(pod=step.pod))
            case replication.Diverged():
                self._say(Diverged(pod=step.pod, offset=step.offset, why=step.why))
        return True

    def _send_portion(self, portion: replication.Portion, data: bytes) -> None:
        self._say(
            TapeBytes(pod=portion.pod, offset=portion.offset, data=data, synced=portion.synced, live=portion.live)
        )
        self._sender.sent(portion, len(data))

    def _read(self, work: Coroutine[object, object, None]) -> None:
        self._reading = True
        self._spawn(self._go_on_after(work))

    async def _go_on_after(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        finally:
            self._reading = False
        self._pump()

    async def _read_portion(self, tended: Tended, portion: replication.Portion) -> None:
        reader = self._reader(tended)
        try:
            data = await asyncio.to_thread(reader.read, portion.offset, portion.limit)
        except ScrubjayError as error:
            self._give_up(tended, error)
            return
        except OSError as error:
            log.warning("tape.not_read", pod=portion.pod, error=str(error))
            self._sender.retry_later(portion.pod, portion.offset, self._runner.clock.monotonic_us())
            return
        if data and self._send is not None:
            self._send_portion(portion, data)

    async def _check(self, check: replication.Check) -> None:
        tended = self._runner.pods.get(check.pod)
        if tended is None:
            return
        try:
            fingerprint = await asyncio.to_thread(self._reader(tended).fingerprint, check.offset)
            self._sender.checked(check.pod, fingerprint)
        except (ScrubjayError, OSError) as error:
            self._give_up(tended, error)

    def _give_up(self, tended: Tended, error: Exception) -> None:
        """A tape that cannot be read here cannot be sent further; what the server has stays."""
        log.warning("tape.unreadable", pod=tended.pod.id, error=str(error))
        self._sender.refused(tended.pod.id)

    def _reader(self, tended: Tended) -> TapeReader:
        pod = tended.pod.id
        reader = self._readers.pop(pod, None) or TapeReader(tended.pod.folder / "tape", pod)
        self._readers[pod] = reader
        while len(self._readers) > _READERS:
            self._readers.pop(next(iter(self._readers))).close()
        return reader

    def _wake_later(self) -> None:
        wake_us = self._sender.wake_us
        if wake_us is None or self._waking is not None:
            return
        delay_s = max(0.0, (wake_us - self._runner.clock.monotonic_us()) / 1e6)
        self._waking = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._waking = None
        self._pump()

    # Requests.

    def _asked(self, ask: Ask) -> None:
        if isinstance(ask.request, Type) and not ask.id:
            try:
                type_at_once(self._runner, ask.request)
            except ScrubjayError as error:
                log.info("input.dropped", pod=ask.request.pod, error=str(error))
            return
        self._spawn(self._answer(ask))

    async def _answer(self, ask: Ask) -> None:
        try:
            answer = Answer(re=ask.id, result=await carry_out(self._runner, ask.request))
        except ScrubjayError as error:
            answer = Answer(re=ask.id, fault=_fault(error))
        except OSError as error:
            log.exception("request.failed", request=type(ask.request).__name__)
            answer = Answer(re=ask.id, fault=_fault(ScrubjayError(error.strerror or str(error))))
        self._say(answer)

    def decline(self, unknown: UnknownRequest) -> None:
        """Answer that what a newer server asks for cannot be done here."""
        if unknown.id:
            hint = "upgrade Scrubjay on that machine"
            self._say(Answer(re=unknown.id, fault=_fault(RunnerTooOld(str(unknown), hint=hint))))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fault(error: ScrubjayError) -> Fault:
    kinds = tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ScrubjayError))
    return Fault(kinds=kinds, message=showable(str(error)), hint=showable(error.hint) if error.hint else None)
