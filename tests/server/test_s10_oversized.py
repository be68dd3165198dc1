"""Whatever is sent, however large, is refused quickly, costs the server no memory, and nobody else notices."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from scrubjay.server.limits import FRAGMENTS_MAX, HEAD_MAX_BYTES, MESSAGE_MAX_BYTES
from tests.server.frames import BINARY, CLOSE, CONT, PING, TEXT, RawSocket, frame
from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S, until
from tests.support.guarded_server import Answer, GuardedServer, hang_up, read_answer
from tests.support.guarded_server_process import GuardedServerProcess
from tests.support.http import FRESH
from tests.support.up_process import UpProcess, open_up_process

pytestmark = pytest.mark.anyio

_MEMORY_KIB = 8 << 10
_JSON = ("Content-Type", "application/json")


@asynccontextmanager
async def _unnoticed(process: GuardedServerProcess) -> AsyncGenerator[None]:
    """Attack while inside: the memory of the server stays, and others are answered all the while."""
    rounds, bystander = 0, await _open(process)

    async def talk() -> None:
        nonlocal rounds
        while True:
            bystander.send(frame(TEXT, b"hello"))
            assert await bystander.read() == (TEXT, b'{"heard": 5}')
            rounds += 1
            await asyncio.sleep(0.01)

    before_kib = process.resident_kib()
    process.forget_peak()
    talking = asyncio.create_task(talk())
    try:
        yield
        await until(lambda: rounds >= 3, "others are answered")
    finally:
        talking.cancel()
        await asyncio.wait([talking])
        await bystander.hang_up()
    assert talking.cancelled()
    assert process.peak_kib() - before_kib <= _MEMORY_KIB


async def _open(process: GuardedServerProcess, *headers: tuple[str, str]) -> RawSocket:
    opened = await RawSocket.open(process.port, f"/api/v1/pods/{process.pod}/live", process.bearer, *headers)
    assert opened.answer.status == 101
    return opened


@pytest.mark.parametrize("claim", [MESSAGE_MAX_BYTES + 1, 16 << 20, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
async def test_s10_a_frame_that_claims_to_be_larger_than_a_message_may_be_is_not_waited_for(
    guarded_process: GuardedServerProcess, claim: int
) -> None:
    async with _unnoticed(guarded_process):
        opened = await _open(guarded_process)

        opened.send(frame(BINARY, claim=claim))

        assert await opened.closed() == 1009
        await opened.hang_up()


async def test_s10_a_message_of_16_mib_is_refused_in_one_piece_and_in_many(
    guarded_process: GuardedServerProcess,
) -> None:
    async with _unnoticed(guarded_process):
        whole, pieces = await _open(guarded_process), await _open(guarded_process)

        whole.send(frame(BINARY, bytes(16 << 20)))
        pieces.send(frame(BINARY, bytes(65536), fin=False) + frame(CONT, bytes(65536), fin=False) * 255)

        assert await whole.closed() == 1009
        assert await pieces.closed() == 1009
        await whole.hang_up()
        await pieces.hang_up()


async def test_s10_the_largest_message_is_taken(guarded_process: GuardedServerProcess) -> None:
    opened = await _open(guarded_process)

    opened.send(frame(BINARY, bytes(MESSAGE_MAX_BYTES)))

    assert await opened.read() == (TEXT, b'{"heard": %d}' % MESSAGE_MAX_BYTES)
    await opened.hang_up()


@pytest.mark.parametrize("size", [0, 1])
async def test_s10_a_message_of_100_000_fragments_is_refused(guarded_process: GuardedServerProcess, size: int) -> None:
    async with _unnoticed(guarded_process):
        opened = await _open(guarded_process)

        opened.send(frame(TEXT, b"a" * size, fin=False) + frame(CONT, b"a" * size, fin=False) * 100_000)

        assert await opened.closed() == 1009
        await opened.hang_up()


async def test_s10_a_message_of_some_fragments_is_taken(guarded_process: GuardedServerProcess) -> None:
    opened = await _open(guarded_process)

    opened.send(frame(TEXT, b"a", fin=False) + frame(CONT, b"a", fin=False) * (FRAGMENTS_MAX - 2) + frame(CONT, b"a"))

    assert await opened.read() == (TEXT, b'{"heard": %d}' % FRAGMENTS_MAX)
    await opened.hang_up()


async def test_s10_what_unpacks_to_a_thousand_times_its_size_is_not_unpacked(
    guarded_process: GuardedServerProcess,
) -> None:
    packer = zlib.compressobj(6, wbits=-15)
    bomb = packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < (64 << 20) / 1000
    async with _unnoticed(guarded_process):
        opened = await _open(
            guarded_process, ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")
        )
        assert opened.answer.header("sec-websocket-extensions") is None

        opened.send(frame(BINARY, bomb, rsv1=True))

        assert await opened.closed() == 1002
        await opened.hang_up()


async def test_s10_a_flood_of_small_messages_whose_answers_nobody_reads_costs_no_memory(
    guarded_process: GuardedServerProcess,
) -> None:
    async with _unnoticed(guarded_process):
        opened = await _open(guarded_process)

        for _ in range(20):
            opened.send(frame(TEXT, b"a") * 10_000)
            await asyncio.sleep(0.01)

        await opened.hang_up()


async def test_s10_a_flood_of_pings_whose_answers_nobody_reads_costs_no_memory(
    guarded_process: GuardedServerProcess,
) -> None:
    async with _unnoticed(guarded_process):
        opened = await _open(guarded_process)
        flood = frame(PING, bytes(125)) * 1000

        async with asyncio.timeout(DEADLINE_S):
            for _ in range(100):  # 13 MB of pings, and as much of pongs
                opened.send(flood)
                await opened.writer.drain()

        await opened.hang_up()


async def test_s10_what_comes_after_a_close_costs_no_memory(guarded_process: GuardedServerProcess) -> None:
    async with _unnoticed(guarded_process):
        opened = await _open(guarded_process)

        opened.send(frame(CLOSE, b"\x03\xe8") + frame(BINARY, bytes(65536)) * 100)

        assert await opened.closed() == 1000
        await opened.hang_up()


async def _send_on(process: GuardedServerProcess, start: bytes, piece: bytes, pieces: int) -> tuple[Answer, int]:
    """Send a request that does not end until there is an answer; that, and how many bytes were taken before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(start)
    sent = 0

    async def send() -> None:
        nonlocal sent
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # or it would send on unheeding until the server cuts it off, and never read why
            sent += len(piece)

    sending = asyncio.create_task(send())
    try:
        return await read_answer(reader), sent
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        await hang_up(writer)


@pytest.mark.parametrize(
    ("start", "piece", "pieces"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: ", b"a" * 65536, 160),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X-Many: a\r\n" * 5000, 160),
        (b"GET /", b"a" * 65536, 160),
        (b"", b"a" * 65536, 160),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a" * 65536, b"a" * 65536, 160),
    ],
    ids=["one header", "many headers", "address", "method", "name of a header"],
)
async def test_s10_a_head_of_10_mib_is_refused(
    guarded_process: GuardedServerProcess, start: bytes, piece: bytes, pieces: int
) -> None:
    async with _unnoticed(guarded_process), asyncio.timeout(DEADLINE_S):
        answer, _ = await _send_on(guarded_process, start, piece, pieces)

        assert answer.status in (431, 400)
        assert answer.header("connection") == "close"


async def test_s10_a_head_that_is_a_little_too_large_is_refused_also_of_a_websocket(
    guarded_server: GuardedServer,
) -> None:
    bearer = await guarded_server.bearer()

    for size, statuses in ((4000, (200, 101)), (HEAD_MAX_BYTES, (431, 431))):
        large = ("X-Large", "a" * size)
        assert (await guarded_server.ask("GET", "/api/v1/me", bearer, large)).status == statuses[0]
    # The parser of WebSockets has limits of its own, which are smaller.
    assert (await guarded_server.knock("/api/v1/flood", bearer, ("X-Large", "a" * 4000))).status == 101


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/upload"])
async def test_s10_a_body_of_1_gib_is_not_read_to_its_end(guarded_process: GuardedServerProcess, path: str) -> None:
    head = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{guarded_process.port}", ": ".join(guarded_process.bearer)]
    start = "\r\n".join([*head, "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""]).encode()
    async with _unnoticed(guarded_process), asyncio.timeout(DEADLINE_S):
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        answer, sent = await _send_on(guarded_process, start, chunk, (1 << 30) // 65536)

        assert (answer.status, answer.code) == (413, "too_large")
        assert sent < 32 << 20


@pytest.mark.parametrize("known", [True, False], ids=["an operator", "nobody"])
async def test_s10_who_goes_on_sending_after_a_refusal_is_cut_off(
    guarded_process: GuardedServerProcess, *, known: bool
) -> None:
    bearer = [": ".join(guarded_process.bearer)] if known else []
    head = ["POST /api/v1/pods HTTP/1.1", f"Host: 127.0.0.1:{guarded_process.port}", *bearer]
    chunk, sent, cut = b"100000\r\n" + bytes(1 << 20) + b"\r\n", 0, False
    async with _unnoticed(guarded_process), asyncio.timeout(DEADLINE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", guarded_process.port)
        writer.write("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
        while not cut and sent < 1 << 30:
            writer.write(chunk)
            sent += len(chunk)
            try:
                await writer.drain()
            except ConnectionError:
                cut = True
        await hang_up(writer)

    assert cut
    assert sent < 64 << 20


async def test_s10_a_body_that_says_it_is_too_large_is_refused_unread(guarded_process: GuardedServerProcess) -> None:
    for length in (1 << 20 | 1, 1 << 30, 1 << 62, 10**30):
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded_process.port)
        head = [
            "POST /api/v1/pods HTTP/1.1",
            f"Host: 127.0.0.1:{guarded_process.port}",
            ": ".join(guarded_process.bearer),
        ]
        writer.write("\r\n".join([*head, f"Content-Length: {length}", "Expect: 100-continue", "", ""]).encode())
        async with asyncio.timeout(DEADLINE_S):
            answer = await read_answer(reader)
        await hang_up(writer)

        assert answer.status in (413, 400), length


async def test_s10_a_body_as_large_as_its_route_takes_is_read(guarded_server: GuardedServer) -> None:
    bearer = await guarded_server.bearer()

    answer = await guarded_server.ask("POST", "/api/v1/upload", bearer, body=bytes(4 << 20))
    larger = await guarded_server.ask("POST", "/api/v1/upload", bearer, body=bytes((4 << 20) + 1))

    assert answer.json == {"bytes": 4 << 20}
    assert larger.status == 413


async def test_s10_json_of_100_000_levels_is_a_mistake_of_the_client(guarded_process: GuardedServerProcess) -> None:
    async with _unnoticed(guarded_process):
        for body in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", guarded_process.port)
            head = ["POST /api/v1/pods HTTP/1.1", f"Host: 127.0.0.1:{guarded_process.port}"]
            head += [
                ": ".join(guarded_process.bearer),
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            ]
            writer.write("\r\n".join([*head, "", ""]).encode() + body)
            answer = await read_answer(reader)
            await hang_up(writer)

            assert answer.status in (400, 422)


async def test_s10_a_request_that_arrives_too_slowly_is_given_up(
    guarded_server: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.server.protocols.HEAD_MAX_S", 0.2)
    monkeypatch.setattr("scrubjay.server.protocols.REST_MAX_S", 0.2)
    monkeypatch.setattr("scrubjay.server.limits.BODY_MAX_S", 0.2)
    bearer = ": ".join(await guarded_server.bearer())
    host = f"Host: 127.0.0.1:{guarded_server.port}"
    head = f"POST /api/v1/upload HTTP/1.1\r\n{host}\r\n{bearer}\r\nContent-Length: 10\r\n\r\n"

    for sent in ("", "GE", "GET / HTTP/1.1\r\nHost: x\r\n", head, head + "12345"):
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded_server.port)
        writer.write(sent.encode())
        async with asyncio.timeout(DEADLINE_S):
            answer = await read_answer(reader)
            assert await reader.read() == b""
        await hang_up(writer)

        assert answer.status == 408, sent


async def test_s10_a_request_on_a_used_connection_may_not_be_slow_either(
    guarded_server: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.server.protocols.HEAD_MAX_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded_server.port)
    writer.write(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{guarded_server.port}\r\n\r\nGET /he".encode())

    async with asyncio.timeout(DEADLINE_S):
        assert (await read_answer(reader)).status == 200
        assert (await read_answer(reader)).status == 408
    await hang_up(writer)


@pytest.fixture
async def asked_up(cli: Cli) -> AsyncGenerator[tuple[UpProcess, httpx.AsyncClient, str]]:
    """The whole server, an operator who asks it, and the id of a pod."""
    with open_up_process(cli) as up:
        token = cli("token", "create", "--role", "operator").stdout.decode().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=up.url, trust_env=False, headers=headers, limits=FRESH, timeout=DEADLINE_S
        ) as client:
            started = await client.post("/api/v1/pods", json={"command": ["cat"], "name": "cat"})
            yield up, client, started.json()["id"]
            cli("stop", "cat", "--grace", "0")


async def test_s10_a_terminal_of_65_535_by_65_535_is_not_made(
    asked_up: tuple[UpProcess, httpx.AsyncClient, str],
) -> None:
    up, client, pod = asked_up
    live = f"{up.url.replace('http', 'ws')}/api/v1/pods/{pod}/live"
    before_kib = _tree_kib(up.pid)

    sizes = [(65_535, 65_535), (65_536, 65_536), (1 << 31, 1 << 31), (1 << 80, 1), (0, 0), (-1, -1)]
    for cols, rows in sizes:
        for path, more in ((f"/api/v1/pods/{pod}/resize", {}), ("/api/v1/pods", {"command": ["cat"]})):
            answer = await client.post(path, json={"cols": cols, "rows": rows, **more})
            assert answer.status_code == 400, (path, cols, rows, answer.text)
    async with connect(live, additional_headers={"Authorization": client.headers["Authorization"]}) as viewer:
        await viewer.send('{"type": "take"}')
        await viewer.send('{"type": "resize", "cols": 65535, "rows": 65535}')
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(message := await viewer.recv(), str) or '"refusal"' not in message:
                continue
    assert "65535x65535" in message
    assert _tree_kib(up.pid) - before_kib < 4 * _MEMORY_KIB
    shown = (await client.get(f"/api/v1/pods/{pod}")).json()
    assert (shown["cols"], shown["rows"]) == (120, 36)


async def test_s10_nonsense_on_every_websocket_closes_it_and_nothing_else(
    asked_up: tuple[UpProcess, httpx.AsyncClient, str],
) -> None:
    up, client, pod = asked_up
    bearer = {"Authorization": client.headers["Authorization"]}
    made = await client.post("/api/v1/tokens", json={"role": "runner"})
    runner = {"Authorization": f"Bearer {made.json()['token']}"}
    nonsense: list[str | bytes] = ["", "[" * 100_000, '{"type":' * 100_000, "null", '{"type": "nothing"}', "\x00"]
    nonsense += [b"", b"\x91" * 100_000, b"\xc1", bytes(1000)]

    for path, headers, closes in (
        (f"/api/v1/pods/{pod}/live", bearer, False),
        (f"/api/v1/pods/{pod}/replay", bearer, False),
        ("/api/v1/fleet", bearer, False),
        ("/api/v1/runner", runner, True),
    ):
        for said in nonsense:
            async with connect(f"{up.url.replace('http', 'ws')}{path}", additional_headers=headers) as opened:
                await opened.send(said)
                if closes or (isinstance(said, str) and "fleet" not in path):
                    async with asyncio.timeout(DEADLINE_S):
                        await opened.wait_closed()
                    assert opened.close_code in (1007, 1008, 4403), (path, said[:20])
    assert (await client.get("/api/v1/me")).status_code == 200
    assert "Traceback" not in up.log.read_text()


def _tree_kib(pid: int) -> int:
    """The memory of a process and of those it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return own + sum(_tree_kib(int(child)) for child in children)
