"""Forged, expired, foreign, revoked and used credentials let nobody in, nor stay in."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text
from starlette.types import Message

from scrubjay.fleet.access import Principal
from scrubjay.server.credentials import BROWSER_S, LOGIN_S, cookie_name
from scrubjay.server.open_connections import OpenConnection, OpenConnections
from tests.server.frames import RawSocket
from tests.support.conditions import DEADLINE_S
from tests.support.fake_clock import FakeClock
from tests.support.guarded_server import GuardedServer, hang_up, read_answer

pytestmark = pytest.mark.anyio

_LIVE = f"/api/v1/pods/{'a' * 26}/live"


def _bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


async def _status(guarded_server: GuardedServer, token: str) -> set[int]:
    """What a token gets, over HTTP and for a WebSocket."""
    return {
        (await guarded_server.ask("GET", "/api/v1/me", _bearer(token))).status,
        (await guarded_server.knock(_LIVE, _bearer(token))).status,
    }


async def test_s6_a_token_that_is_not_exactly_one_of_ours_is_refused(
    timed_guarded_server: GuardedServer, clock: FakeClock
) -> None:
    token, other = await timed_guarded_server.token(), await timed_guarded_server.token()
    _, id_, secret = token.split("_")
    _, other_id, other_secret = other.split("_")
    forged = {
        "truncated": token[:-1],
        "lengthened": token + "a",
        "another id": f"sjt_{other_id}_{secret}",
        "another secret": f"sjt_{id_}_{other_secret}",
        "an unknown id": f"sjt_{'a' * 12}_{secret}",
        "one letter changed": token[:-1] + ("a" if token[-1] != "a" else "b"),
        "its id alone": id_,
        "its secret alone": secret,
        "its digest": hashlib.sha256(token.encode()).hexdigest(),
        "capitals": token.upper(),
        "another kind": "sjx" + token[3:],
        "a JWT without a signature": "eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3BlcmF0b3IifQ.",
        "nothing": "",
        "SQL": "sjt_' OR 1=1 --_x",
    }

    assert await _status(timed_guarded_server, token) == {200, 101}
    for kind, raw in forged.items():
        clock.advance(10)  # or it would be told to wait
        assert await _status(timed_guarded_server, raw) == {401}, kind


async def test_s6_a_cookie_that_is_not_exactly_one_of_ours_is_refused(guarded_server: GuardedServer) -> None:
    _, cookie = await guarded_server.cookie()
    name, _, value = cookie.partition("=")
    id_, _, secret = value.partition(".")
    token = await guarded_server.token()

    async def status(cookie: str) -> int:
        return (await guarded_server.ask("GET", "/api/v1/me", ("Cookie", cookie))).status

    assert await status(cookie) == 200
    for forged in (cookie[:-1], f"{name}={id_}.", f"{name}={'a' * 12}.{secret}", f"{name}={token}", f"{name}="):
        assert await status(forged) == 401, forged
    assert await status(f"{cookie_name(guarded_server.port + 1)}={value}") == 401
    assert await status(f"scrubjay={value}") == 401
    assert (await guarded_server.ask("GET", "/api/v1/me", _bearer(value))).status == 401


@pytest.mark.parametrize("late_s", [0, 1, 61])
async def test_s6_an_expired_token_is_refused(
    timed_guarded_server: GuardedServer, clock: FakeClock, late_s: int
) -> None:
    token = await timed_guarded_server.token(expires_us=clock.wall_us() + 100_000_000)

    clock.advance(99)
    assert await _status(timed_guarded_server, token) == {200, 101}
    clock.advance(1 + late_s)
    assert await _status(timed_guarded_server, token) == {401}


async def test_s6_a_login_expires_too(timed_guarded_server: GuardedServer, clock: FakeClock) -> None:
    cookie = await timed_guarded_server.cookie()

    clock.advance(BROWSER_S - 1)
    assert (await timed_guarded_server.ask("GET", "/api/v1/me", cookie)).status == 200
    clock.advance(1)
    assert (await timed_guarded_server.ask("GET", "/api/v1/me", cookie)).status == 401


async def test_s6_a_token_of_another_pod_opens_nothing_of_this_one(guarded_server: GuardedServer) -> None:
    mine, other = await guarded_server.add_pod("mine"), await guarded_server.add_pod("other")
    bearer = await guarded_server.bearer("pod", pod=mine)

    for path in (f"/api/v1/pods/{other}", "/api/v1/pods/other"):
        assert (await guarded_server.ask("GET", path, bearer)).status == 404
        assert (await guarded_server.knock(f"{path}/live", bearer)).status == 404


async def test_s6_a_login_link_works_once(guarded_server: GuardedServer) -> None:
    code, _ = await guarded_server.gate.credentials.create_login()

    answers = await asyncio.gather(*(guarded_server.ask("GET", f"/login?code={code}") for _ in range(10)))

    assert sorted(answer.status for answer in answers) == [303] + [410] * 9
    assert sum(answer.header("set-cookie") is not None for answer in answers) == 1
    assert b"scrubjay login" in next(answer for answer in answers if answer.status == 410).body


async def test_s6_a_login_link_is_good_for_ten_minutes(timed_guarded_server: GuardedServer, clock: FakeClock) -> None:
    late, _ = await timed_guarded_server.gate.credentials.create_login()
    clock.advance(LOGIN_S - 1)
    in_time = await timed_guarded_server.ask("GET", f"/login?code={late}")
    too_late, _ = await timed_guarded_server.gate.credentials.create_login()
    clock.advance(LOGIN_S)

    assert in_time.status == 303
    assert (await timed_guarded_server.ask("GET", f"/login?code={too_late}")).status == 410


async def test_s6_unknown_and_broken_codes_are_refused_alike(guarded_server: GuardedServer) -> None:
    for query in ("?code=" + "a" * 52, "?code=", "", "?code=%00", "?code=" + "a" * 5000, "?code=a&code=b"):
        answer = await guarded_server.ask("GET", f"/login{query}")
        assert (answer.status, answer.header("set-cookie")) == (410, None), query


async def test_s6_a_browser_that_looks_ahead_does_not_use_a_link_up(guarded_server: GuardedServer) -> None:
    code, _ = await guarded_server.gate.credentials.create_login()

    for name, value in (
        ("Sec-Purpose", "prefetch"),
        ("Sec-Purpose", "prefetch;prerender"),
        ("Purpose", "prefetch"),
        ("X-Purpose", "preview"),
        ("X-Moz", "prefetch"),
    ):
        assert (await guarded_server.ask("GET", f"/login?code={code}", (name, value))).status == 503
    assert (await guarded_server.ask("HEAD", f"/login?code={code}")).status == 503
    assert (await guarded_server.ask("GET", f"/login?code={code}")).status == 303


async def test_s6_a_used_link_takes_the_browser_it_has_logged_in_to_the_page_again(
    guarded_server: GuardedServer,
) -> None:
    code, _ = await guarded_server.gate.credentials.create_login()
    first = await guarded_server.ask("GET", f"/login?code={code}")
    cookie = ("Cookie", (first.header("set-cookie") or "").partition(";")[0])

    again = await guarded_server.ask("GET", f"/login?code={code}", cookie)

    assert (again.status, again.header("location"), again.header("set-cookie")) == (303, "/", None)


async def test_s6_logging_in_again_ends_the_login_before(guarded_server: GuardedServer) -> None:
    cookie = await guarded_server.cookie()
    code, _ = await guarded_server.gate.credentials.create_login()
    watching = await RawSocket.open(guarded_server.port, _LIVE, cookie, ("Origin", guarded_server.url))

    assert (await guarded_server.ask("GET", f"/login?code={code}", cookie)).status == 303

    assert await watching.closed() == 4401
    assert (await guarded_server.ask("GET", "/api/v1/me", cookie)).status == 401
    await watching.hang_up()


async def test_s6_a_secret_has_260_random_bits(guarded_server: GuardedServer) -> None:
    secrets = [(await guarded_server.token()).split("_")[2] for _ in range(20)]

    assert {len(secret) * 5 for secret in secrets} == {260}
    assert set("".join(secrets)) == set("abcdefghijklmnopqrstuvwxyz234567")  # five bits each


async def test_s6_revoking_a_token_closes_what_it_has_open(guarded_server: GuardedServer) -> None:
    admin, token, other = (
        await guarded_server.bearer(),
        await guarded_server.token("viewer"),
        await guarded_server.bearer("viewer"),
    )
    id_ = token.split("_")[1]
    sockets = [await RawSocket.open(guarded_server.port, _LIVE, _bearer(token)) for _ in range(5)]
    unharmed = await RawSocket.open(guarded_server.port, _LIVE, other)

    answer = await guarded_server.ask("DELETE", f"/api/v1/tokens/{id_}", admin)

    assert answer.status == 204
    assert [await opened.closed() for opened in sockets] == [4401] * 5
    assert await _status(guarded_server, token) == {401}
    unharmed.send(b"\x81\x82\x00\x00\x00\x00hi")
    assert await unharmed.read() == (1, b'{"heard": 2}')
    assert (await guarded_server.ask("DELETE", f"/api/v1/tokens/{id_}", admin)).status == 404
    for opened in (*sockets, unharmed):
        await opened.hang_up()


async def test_s6_revoking_a_token_hangs_up_on_one_who_does_not_read(
    guarded_server: GuardedServer, promised: Callable[[float], float]
) -> None:
    admin, token = await guarded_server.bearer(), await guarded_server.token("viewer")
    stalled = await RawSocket.open(guarded_server.port, "/api/v1/flood", _bearer(token))
    async with asyncio.timeout(DEADLINE_S):
        while not await _is_stalled(guarded_server):
            await asyncio.sleep(0.01)

    await guarded_server.ask("DELETE", f"/api/v1/tokens/{token.split('_')[1]}", admin)

    async with asyncio.timeout(promised(5)):
        while guarded_server.gate.connections.principals():
            await asyncio.sleep(0.01)
    await stalled.hang_up()


async def _is_stalled(guarded_server: GuardedServer) -> bool:
    """Whether nothing goes out any more: the connection's buffers are full."""
    with open("/proc/net/tcp") as file:
        queued = [line.split()[4].split(":")[0] for line in file if f":{guarded_server.port:04X} " in line]
    return any(int(waiting, 16) > 100_000 for waiting in queued)


async def test_s6_revoking_a_token_cuts_a_response_that_does_not_end(guarded_server: GuardedServer) -> None:
    admin, token = await guarded_server.bearer(), await guarded_server.token("viewer")
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded_server.port)
    lines = [
        "GET /api/v1/forever HTTP/1.1",
        f"Host: 127.0.0.1:{guarded_server.port}",
        f"Authorization: Bearer {token}",
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    assert (await read_answer(reader)).status == 200

    await guarded_server.ask("DELETE", f"/api/v1/tokens/{token.split('_')[1]}", admin)

    async with asyncio.timeout(DEADLINE_S):
        try:
            while await reader.read(4096):
                continue
        except ConnectionResetError:
            pass
    await hang_up(writer)


async def test_s6_an_operator_may_revoke_the_token_that_asks(guarded_server: GuardedServer) -> None:
    token = await guarded_server.token()

    answer = await guarded_server.ask("DELETE", f"/api/v1/tokens/{token.split('_')[1]}", _bearer(token))

    assert answer.status == 204
    assert await _status(guarded_server, token) == {401}


async def test_s6_what_was_revoked_behind_the_guards_back_is_closed_too(
    guarded_server: GuardedServer, promised: Callable[[float], float]
) -> None:
    token, cookie = await guarded_server.token("viewer"), await guarded_server.cookie()
    by_token = await RawSocket.open(guarded_server.port, _LIVE, _bearer(token))
    by_cookie = await RawSocket.open(guarded_server.port, _LIVE, cookie, ("Origin", guarded_server.url))

    for table in ("token", "browser"):
        ended = text(f"UPDATE {table} SET until_us = since_us + 1, until_event = since_event + 1")
        await guarded_server.database.write(lambda connection, ended=ended: connection.execute(ended).rowcount)

    assert await by_token.closed(within_s=promised(5)) == 4401
    assert await by_cookie.closed(within_s=promised(5)) == 4401
    await by_token.hang_up()
    await by_cookie.hang_up()


async def test_s6_one_connection_that_cannot_be_closed_keeps_no_other_open() -> None:
    somebody, connections, closed, aborted = (
        Principal("token:x", "viewer", "x"),
        OpenConnections(),
        list[int](),
        list[str](),
    )

    async def take(message: Message) -> None:
        closed.append(message["code"])

    async def has_closed(_message: Message) -> None:
        raise RuntimeError("Unexpected ASGI message 'websocket.close', after sending 'websocket.close'")

    both = [
        OpenConnection(somebody, send, lambda: aborted.append("hung up"), websocket=True) for send in (has_closed, take)
    ]
    with connections.holding(both[0]), connections.holding(both[1]):
        assert await connections.close(somebody.id, code=4401, reason="ended") == 2

    assert (closed, aborted) == ([4401], ["hung up"])


async def test_s6_the_watch_goes_on_when_it_fails_for_one(
    timed_guarded_server: GuardedServer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = timed_guarded_server.gate.credentials
    still_good, odd = credentials.still_good, await timed_guarded_server.token("viewer")
    token = await timed_guarded_server.token("viewer", expires_us=clock.wall_us() + 10_000_000)
    by_odd = await RawSocket.open(timed_guarded_server.port, _LIVE, _bearer(odd))
    by_token = await RawSocket.open(timed_guarded_server.port, _LIVE, _bearer(token))

    async def fail_for_one(principal: Principal) -> bool:
        if principal.id == f"token:{odd.split('_')[1]}":
            raise RuntimeError("nobody has thought of this")
        return await still_good(principal)

    monkeypatch.setattr(credentials, "still_good", fail_for_one)
    clock.advance(11)

    assert await by_token.closed() == 4401
    await by_token.hang_up()
    await by_odd.hang_up()


async def test_s6_a_credential_that_expires_closes_what_it_has_open(
    timed_guarded_server: GuardedServer, clock: FakeClock
) -> None:
    token = await timed_guarded_server.token("viewer", expires_us=clock.wall_us() + 10_000_000)
    opened = await RawSocket.open(timed_guarded_server.port, _LIVE, _bearer(token))

    clock.advance(11)

    assert await opened.closed() == 4401
    await opened.hang_up()


async def test_s6_logging_out_ends_the_login_and_closes_what_it_has_open(guarded_server: GuardedServer) -> None:
    cookie, origin = await guarded_server.cookie(), ("Origin", guarded_server.url)
    watching = await RawSocket.open(guarded_server.port, _LIVE, cookie, origin)

    assert (await guarded_server.ask("POST", "/logout", cookie)).status == 403
    answer = await guarded_server.ask("POST", "/logout", cookie, origin)

    assert answer.status == 204
    assert (answer.header("set-cookie") or "").startswith(
        f"{cookie_name(guarded_server.port)}=; Max-Age=0; Path=/; Secure"
    )
    assert await watching.closed() == 4401
    assert (await guarded_server.ask("GET", "/api/v1/me", cookie)).status == 401
    assert (await guarded_server.ask("POST", "/logout", await guarded_server.bearer())).code == "not_logged_in"
    await watching.hang_up()


async def test_s6_only_digests_of_secrets_are_kept(guarded_server: GuardedServer) -> None:
    token = await guarded_server.token()
    code, _ = await guarded_server.gate.credentials.create_login()
    _, cookie = await guarded_server.cookie()

    def dump(connection: Connection) -> str:
        tables = ("token", "login", "browser", "event")
        return repr([connection.execute(text(f"SELECT * FROM {name}")).all() for name in tables])

    kept = await guarded_server.database.read(dump)

    assert token.split("_")[1] in kept
    for secret in (token.split("_")[2], code, cookie.partition(".")[2]):
        assert secret not in kept
        assert len(secret) == 52  # of 32 letters: 260 bits


@pytest.mark.parametrize(
    "wanted",
    [
        '{"role": "pod"}',
        '{"role": "viewer", "pod": "claude"}',
        '{"role": "king"}',
        '{"role": "viewer", "name": "a\\u001bb"}',
        '{"role": "viewer", "expires_in_s": 0}',
        '{"role": "viewer", "expires_in_s": -61}',
        '{"role": "viewer", "extra": 1}',
        '{"role": "pod", "pod": "nobody"}',
        "[]",
        "",
    ],
)
async def test_s6_a_token_that_makes_no_sense_is_not_made(guarded_server: GuardedServer, wanted: str) -> None:
    await guarded_server.add_pod("claude")
    admin, json = await guarded_server.bearer(), ("Content-Type", "application/json")
    before = await guarded_server.gate.credentials.list_tokens()

    answer = await guarded_server.ask("POST", "/api/v1/tokens", admin, json, body=wanted.encode())

    assert answer.status in (400, 404, 422)
    assert len(await guarded_server.gate.credentials.list_tokens()) == len(before)


async def test_s6_a_token_is_shown_once_and_listed_without_its_secret(guarded_server: GuardedServer) -> None:
    pod = await guarded_server.add_pod("codex")
    admin, json = await guarded_server.bearer(), ("Content-Type", "application/json")

    made = await guarded_server.ask(
        "POST", "/api/v1/tokens", admin, json, body=b'{"role": "pod", "pod": "codex", "expires_in_s": 60}'
    )
    listed = await guarded_server.ask("GET", "/api/v1/tokens", admin)

    assert made.status == 201
    assert made.json["pod"] == pod
    assert made.json["token"].startswith(f"sjt_{made.json['id']}_")
    assert (await guarded_server.ask("GET", "/api/v1/me", _bearer(made.json["token"]))).json["pod"] == pod
    assert {row["id"] for row in listed.json} >= {made.json["id"]}
    assert made.json["token"].split("_")[2].encode() not in listed.body


async def test_s6_a_login_link_is_made_by_those_who_may_admit_others(guarded_server: GuardedServer) -> None:
    json = ("Content-Type", "application/json")

    refused = await guarded_server.ask(
        "POST", "/api/v1/logins", await guarded_server.bearer("viewer"), json, body=b"{}"
    )
    made = await guarded_server.ask_locally("POST", "/api/v1/logins", ("Host", "x"), json, body=b'{"role": "viewer"}')

    assert refused.status == 403
    assert made.json["url"].startswith(f"{guarded_server.url}/login?code=")
    entered = await guarded_server.ask("GET", made.json["url"].removeprefix(guarded_server.url))
    cookie = ("Cookie", (entered.header("set-cookie") or "").partition(";")[0])
    assert (await guarded_server.ask("GET", "/api/v1/me", cookie)).json["role"] == "viewer"


async def test_a_login_link_leads_to_the_address_that_was_asked_for_it(guarded_server: GuardedServer) -> None:
    json, operator = ("Content-Type", "application/json"), await guarded_server.bearer()
    shown = f"localhost:{guarded_server.port}"

    asked = await guarded_server.ask("POST", "/api/v1/logins", ("Host", shown), operator, json, body=b"{}")
    local = await guarded_server.ask_locally("POST", "/api/v1/logins", ("Host", "x"), json, body=b"{}")

    assert asked.json["url"].startswith(f"http://{shown}/login?code=")
    assert local.json["url"].startswith(f"{guarded_server.url}/login?code=")
