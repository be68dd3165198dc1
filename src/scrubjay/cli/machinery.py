"""Server and runner put together and run, in one process or each alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import structlog

from scrubjay.clock import SystemClock
from scrubjay.errors import CatalogUnavailable, ScrubjayError
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.runner.runner import Runner
from scrubjay.runner.uplink import Uplink
from scrubjay.server.app import make_guarded_app
from scrubjay.server.changes import Changes
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.gate import Gate
from scrubjay.server.listeners import Listeners
from scrubjay.server.login import login_link
from scrubjay.server.mcp.endpoint import McpEndpoint
from scrubjay.server.notify import Notifier
from scrubjay.server.origins import Addresses, nearest_origin, own_origins
from scrubjay.server.peer import Peer
from scrubjay.server.tower import Tower
from scrubjay.server.web import Tls, ready_to_serve
from scrubjay.settings import Settings
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.tapes import ReplicatedTapes, SharedTapes, Tapes, seal_copy
from scrubjay.wire.messages import Ask, FromRunner, FromServer, Hello, TapeBytes

CATALOG = "catalog.sqlite"
SOCKET = "server.sock"
SEAL_EVERY_S = 10.0

_Work = Callable[[], Coroutine[object, object, None]]

log = structlog.get_logger()


class PartFailed(ScrubjayError):
    """Something that goes on until it is cancelled has ended by itself."""

    def __init__(self, part: str, error: BaseException) -> None:
        self.part = part
        super().__init__(
            f"the {part} has failed: {str(error) or type(error).__name__}", hint="its log says more; start it again"
        )


@dataclass(frozen=True, slots=True)
class OpenServer:
    """A server whose sockets are open; clients that connect before ``serve`` is called wait for it."""

    tower: Tower
    coordination: Coordination
    gate: Gate
    url: str
    serve: Callable[[], Awaitable[None]]

    async def first_login(self) -> str | None:
        """A link that logs a browser in, once; None where a full disk takes none, which is no reason not to serve."""
        try:
            code, _ = await self.gate.credentials.create_login(role="operator", name="browser")
        except CatalogUnavailable as error:
            log.warning("login.not_made", error=str(error))
            return None
        return login_link(self.gate.addresses.origins[0], code)


@asynccontextmanager
async def open_server(settings: Settings, tapes: Tapes) -> AsyncGenerator[OpenServer]:
    """A server on its sockets while inside. On the way out everything is closed; pods go on."""
    home = Home(settings.data)
    with home.changing():
        pass  # makes the folder
    tls = Tls(settings.tls_cert, settings.tls_key) if settings.tls_cert and settings.tls_key else None
    clock, changes, listeners = SystemClock(), Changes(), Listeners()
    try:
        listeners.open_unix(settings.data / SOCKET)
        listeners.open_tcp(settings.host, settings.port, tls=tls is not None)
        database = await SqliteDatabase.open(settings.data / CATALOG, on_events=changes.publish)
    except BaseException:
        listeners.close()
        raise
    origins = own_origins(listeners.port, host=settings.host, tls=tls is not None, names=settings.names)
    nearest = nearest_origin(listeners.port, host=settings.host, tls=tls is not None, names=settings.names)
    tower = Tower(database, tapes, changes, clock, search_path=home.search_path)
    coordination = Coordination(tower, settings)
    gate = Gate(database, clock, Addresses(origins, nearest), coordination.permits)
    coordination.pod_resume.passes = gate
    mcp = McpEndpoint(coordination)
    gate.on_pass = mcp.prepare
    try:
        await tower.begin()
        await coordination.begin()
        notifier = Notifier(database, changes, clock, settings, attended=lambda pod: tower.viewers(pod) > 0)
        tower.on_called = lambda known, called: notifier.called(
            PodId(known.report.id), called.kind, called.title, called.body
        )
        async with (
            ready_to_serve(make_guarded_app(coordination, gate, mcp), listeners, tls=tls) as serve,
            _alongside(
                server=tower.run, coordination=coordination.run, gate=gate.run, notifier=notifier.run, mcp=mcp.run
            ),
        ):
            yield OpenServer(tower, coordination, gate, str(origins[0]), serve)
    finally:
        await tower.close()
        await database.close()


async def keep_sealing(tapes: ReplicatedTapes) -> None:
    """Compress what has ended of the copies, until cancelled."""
    while True:
        for job in await asyncio.to_thread(tapes.sealable):
            try:
                await asyncio.to_thread(seal_copy, job)
            except (ScrubjayError, OSError) as error:
                log.warning("copy.not_sealed", pod=job.pod, error=str(error))
        await asyncio.sleep(SEAL_EVERY_S)


@asynccontextmanager
async def linked_locally(uplink: Uplink, server: OpenServer) -> AsyncGenerator[None]:
    """Let a runner and a server of the same process talk while inside: the same words, without a socket.

    Inside, the server knows the runner and its pods.
    """
    loop, tower = asyncio.get_running_loop(), server.tower
    peers: list[Peer] = []

    # Keys and their echoes go at once, by the shortest way; all else in a turn of its own, as from a socket.
    def to_runner(message: FromServer) -> None:
        if isinstance(message, Ask) and not message.id:
            uplink.hear(message)
        else:
            loop.call_soon(uplink.hear, message)

    def hear(message: FromRunner) -> None:
        if isinstance(message, Hello):
            peers.append(Peer(tower, message, to_runner, lambda: None, local=True))
        else:
            peers[0].hear(message)

    def to_server(message: FromRunner) -> None:
        if isinstance(message, TapeBytes):
            hear(message)
        else:
            loop.call_soon(hear, message)

    await uplink.connect(to_server, show=tower.show, mcp_url=server.gate.mcp_url)
    while not peers:
        await asyncio.sleep(0)
    try:
        async with _alongside(link=peers[0].run):
            await tower.until_linked(peers[0].id)
            yield
    finally:
        uplink.disconnect()
        peers[0].end()
        await tower.farewell(peers[0], "the server was shut down")


def asked_to_stop() -> asyncio.Event:
    """Return an event that is set by Ctrl-C, SIGTERM or SIGHUP, which no longer end this process at once.

    Call this before the server answers: a client may ask for the end as soon as it has an answer.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def first_of(*works: Coroutine[object, object, object]) -> None:
    """Do several things until one of them is done; what it raises is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@asynccontextmanager
async def running_runner(settings: Settings, environ: Mapping[str, str]) -> AsyncGenerator[Uplink]:
    """A runner that looks after the pods of this machine while inside."""
    home = Home(settings.data)
    with home.changing():
        pass  # makes the folder
    runner = Runner(home, settings, environ)
    uplink = Uplink(runner)
    async with _alongside(runner=runner.run):
        yield uplink


@asynccontextmanager
async def _alongside(**parts: _Work) -> AsyncGenerator[None]:
    """Do things while inside. If one of them fails, what is inside is cancelled, and PartFailed says which."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_do(part, work)) for part, work in parts.items()]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failed:
        raise _first(failed) from failed


async def _do(part: str, work: _Work) -> None:
    try:
        await work()
    except Exception as error:
        log.exception("part.failed", part=part)
        raise PartFailed(part, _first(error)) from error


def _first(error: BaseException) -> BaseException:
    """The first of several errors, or the only one."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    return _first(cast(BaseExceptionGroup[BaseException], error).exceptions[0])


def shared_tapes(settings: Settings) -> SharedTapes:
    """The tapes of a server that lives with its runner: the pods' own."""
    return SharedTapes(settings.data / "pods")


def copied_tapes(settings: Settings) -> ReplicatedTapes:
    """The tapes of a server without a runner: copies."""
    return ReplicatedTapes(settings.data / "tapes")
