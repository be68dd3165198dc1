"""A live pod over a WebSocket: a keyframe, then everything that follows; keys in the other direction."""

from __future__ import annotations

import asyncio
from itertools import count

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.access import Action
from scrubjay.fleet.keyboard import Grant
from scrubjay.ids import PodId
from scrubjay.server.direct import direct_of, encode_ws_frame
from scrubjay.server.guard import need_while_open
from scrubjay.server.live import LivePod, PodUnwatchable
from scrubjay.server.sockets.closing import close_quietly, gate_of, pod_of, principal_of, tower_of
from scrubjay.server.tower import KnownPod, author_of
from scrubjay.wire import messages
from scrubjay.wire import viewer as wire

HELD_UP_S = 0.25  # a viewer that a message has waited for so long is slow, and not only late

_numbers = count(1)


async def live_pod(websocket: WebSocket) -> None:
    """``/api/v1/pods/{pod}/live``: with ``mode=watch`` nothing can be typed; ``after=OFFSET`` goes on from there."""
    raw_after = websocket.query_params.get("after", "")
    after = int(raw_after) if raw_after.isdecimal() and len(raw_after) < 19 else None
    watches = websocket.query_params.get("mode", "type") == "watch"
    await websocket.accept()
    await _Viewer(websocket, pod_of(websocket), watches=watches, after=after).run()


class _Viewer:
    """One who looks at one pod."""

    def __init__(self, websocket: WebSocket, pod: PodId, *, watches: bool, after: int | None) -> None:
        self._socket, self._pod = websocket, pod
        self._tower, self._permits = tower_of(websocket), gate_of(websocket).permits
        self._principal = principal_of(websocket)
        self._direct = direct_of(websocket)
        self._live: LivePod = self._tower.live(pod)
        self._may_type = not watches and self._permits.allows(self._principal, "type", pod)
        if self._may_type:
            need_while_open(websocket.scope, "type", pod)  # it may have the keyboard
        self._holder = f"viewer-{next(_numbers)}"
        self._cursor = -1 if after is None else after
        self._resynced = after is None
        self._catching_up = True
        self._told_report: messages.PodReport | None = None
        self._told_grant: Grant | None = None

    async def run(self) -> None:
        """Serve until either side leaves."""
        self._live.enter()
        self._tower.watching_changed(self._pod)
        self._direct.on_bytes = self._type_at_once
        try:
            async with asyncio.TaskGroup() as tasks:
                showing = tasks.create_task(self._show())
                try:
                    await self._listen()
                finally:
                    showing.cancel()
        except* (WebSocketDisconnect, WebSocketDisconnected):
            pass
        finally:
            self._direct.on_bytes = None
            self._live.leave()
            self._tower.give_keyboard(self._pod, self._holder)
            self._tower.watching_changed(self._pod)

    # What it is shown.

    async def _show(self) -> None:
        while (known := self._tower.pods.get(self._pod)) is not None:
            await self._greet(known.report)
            await self._tell_keyboard()
            batch = self._live.since(self._cursor, catching_up=self._catching_up)
            if batch is None:
                await self._begin()
                continue
            self._cursor, frames = batch
            for frame in frames:
                await self._write(frame)
            if not frames:
                self._catching_up = False
                # Behind what it has shown: who hears that a pod has ended may leave. What has become of it while
                # something was sent is told before there is anything to wait for.
                if not (await self._tell_process() or await self._tell_keyboard()):
                    await self._live.wait(self._cursor, self._take)
        await close_quietly(self._socket, wire.GONE, "the pod was deleted")

    async def _begin(self) -> None:
        """Give it a keyframe to go on from."""
        try:
            frame = await self._live.keyframe()
        except (PodUnwatchable, ScrubjayError) as error:
            await self._refuse("screen", error)
            await asyncio.sleep(1)
            return
        self._live.resyncs += self._resynced
        self._resynced = True
        self._cursor = frame.offset
        await self._send(frame.message)
        self._catching_up = True

    async def _greet(self, report: messages.PodReport) -> None:
        if self._told_report is not None:
            return
        self._told_report = report
        hello = wire.Hello(
            pod=report.id,
            name=report.name,
            process=report.process,
            cols=report.cols,
            rows=report.rows,
            may_type=self._may_type,
            reason=report.reason,
            exit_status=report.exit_status,
        )
        await self._send(wire.encode(hello))
        await self._send(wire.encode(self._keyboard()))

    async def _tell_process(self) -> bool:
        """Say how the pod is, if that has changed; whether it has."""
        known = self._tower.pods.get(self._pod)
        if known is None:
            return True
        report, before = known.report, self._told_report
        self._told_report = report
        if before is None or (before.process, before.reason) == (report.process, report.reason):
            return False
        status = wire.Status(process=report.process, reason=report.reason, exit_status=report.exit_status)
        await self._send(wire.encode(status))
        return True

    async def _tell_keyboard(self) -> bool:
        """Say who types, if that has changed; whether it has."""
        if self._told_grant == self._tower.keyboards.holder(self._pod):
            return False
        await self._send(wire.encode(self._keyboard()))
        return True

    def _keyboard(self) -> wire.Keyboard:
        grant = self._told_grant = self._tower.keyboards.holder(self._pod)
        if grant is None:
            return wire.Keyboard(holder=None, mine=False)
        mine = grant.holder == self._holder
        return wire.Keyboard(holder=grant.name, mine=mine, epoch=grant.epoch if mine else None)

    def _take(self) -> bool:
        """Be shown at once what is new, if that is all there is to do and it takes it."""
        batch = self._live.since(self._cursor, catching_up=False)
        if batch is None or len(batch[1]) > 1:
            return False
        if batch[1] and not self._direct.write(batch[1][0]):
            return False
        self._cursor = batch[0]
        return True

    async def _send(self, message: str | bytes) -> None:
        await self._write(encode_ws_frame(message))

    async def _write(self, frame: bytes) -> None:
        began = asyncio.get_running_loop().time()
        while not self._direct.write(frame):
            try:
                await self._direct.until_writable()
            except OSError as error:
                raise WebSocketDisconnect from error
        # What it did not take is held by its connection only; nobody else has waited.
        if asyncio.get_running_loop().time() - began > HELD_UP_S:
            self._catching_up = False

    # What it says.

    async def _listen(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                data = message.get("bytes")
                if data is not None:
                    self._type(data)
                else:
                    await self._hear(wire.decode_from_viewer(message["text"]))
            except wire.BadMessage as error:
                await close_quietly(self._socket, 1007, str(error)[:100])
                return
            except _Forbidden as forbidden:
                await self._tower.audit("input.refused", self._pod, self._principal)
                await close_quietly(self._socket, wire.FORBIDDEN, str(forbidden))
                return
            except ScrubjayError as error:
                await self._refuse("input", error)

    async def _hear(self, message: wire.FromViewer) -> None:
        match message:
            case wire.Input():
                self._type(message.text.encode("utf-8", "surrogatepass"))
            case wire.Take():
                self._require("control" if message.takeover else "type")
                known = self._known()
                self._tower.require_running(known)
                await self._tower.take_keyboard(known, self._principal, self._holder, takeover=message.takeover)
            case wire.Give():
                self._tower.give_keyboard(self._pod, self._holder)
            case wire.Resize():
                grant = self._require_keyboard("control")
                resize = messages.Resize(pod=self._pod, cols=message.cols, rows=message.rows, epoch=grant.epoch)
                await self._tower.ask(self._known(), resize)
            case wire.Interrupt():
                self._require_keyboard("control")
                signal = messages.Signal(pod=self._pod, signal=message.signal, author=author_of(self._principal))
                await self._tower.ask(self._known(), signal)

    def _type_at_once(self, data: bytes) -> bool:
        try:
            self._type(data)
        except (ScrubjayError, wire.BadMessage, _Forbidden):
            return False  # it is refused where everything is
        return True

    def _type(self, data: bytes) -> None:
        grant = self._require_keyboard("type")
        if len(data) > wire.INPUT_MAX_BYTES:
            raise wire.BadMessage(f"more than {wire.INPUT_MAX_BYTES} bytes were typed at once")
        author = author_of(self._principal)
        typed = messages.Type(pod=self._pod, data=data, author=author, epoch=grant.epoch)
        # Nobody waits for the disk: the echo tells that it was typed, and the tape has it before the agent.
        self._tower.peer_of(self._known()).tell(typed)

    def _require(self, action: Action) -> None:
        """Refuse what it may not do; asked for every key, so that nothing is typed by a right that has ended."""
        if not self._may_type:
            raise _Forbidden("this connection may only watch")
        if not self._permits.allows(self._principal, action, self._pod):
            raise _Forbidden("you may type here and nothing else" if action == "control" else "you may not type here")

    def _require_keyboard(self, action: Action) -> Grant:
        self._require(action)
        return self._tower.keyboards.require_holder(self._pod, self._holder)

    def _known(self) -> KnownPod:
        return self._tower.find(self._pod)

    async def _refuse(self, what: str, error: ScrubjayError | PodUnwatchable) -> None:
        hint = error.hint if isinstance(error, ScrubjayError) else None
        await self._send(wire.encode(wire.Refusal(what=what, message=str(error), hint=hint)))


class _Forbidden(Exception):
    """Something that this connection may not do; why is what its owner is told."""
