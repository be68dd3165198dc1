"""The door: who is let in, what everything that comes out has in common, and what is never let in."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from scrubjay.fleet.access import Role
from scrubjay.server.guard import LOCAL, Guard
from tests.support.fake_clock import FakeClock
from tests.support.guarded_server import TABLE, GuardedServer

pytestmark = pytest.mark.anyio

_WRITE = b"{}"
_JSON = ("Content-Type", "application/json")


async def test_who_shows_a_good_token_is_let_in(guarded_server: GuardedServer) -> None:
    answer = await guarded_server.ask("GET", "/api/v1/me", await guarded_server.bearer("viewer"))

    assert answer.status == 200
    assert answer.json["role"] == "viewer"


async def test_who_shows_a_good_cookie_is_let_in(guarded_server: GuardedServer) -> None:
    answer = await guarded_server.ask("GET", "/api/v1/me", await guarded_server.cookie())

    assert answer.status == 200
    assert answer.json["id"].startswith("browser:")


async def test_the_same_user_at_the_unix_socket_is_an_operator_whatever_name_the_server_is_called_by(
    guarded_server: GuardedServer,
) -> None:
    for host in ("scrubjay", "localhost", "evil.test"):
        answer = await guarded_server.ask_locally("GET", "/api/v1/me", ("Host", host))

        assert answer.json == {"id": "local", "role": "operator", "name": LOCAL.name, "pod": None}


async def test_a_token_shown_at_the_unix_socket_counts_more_than_the_user(guarded_server: GuardedServer) -> None:
    good = await guarded_server.ask_locally("GET", "/api/v1/me", ("Host", "x"), await guarded_server.bearer("viewer"))
    bad = await guarded_server.ask_locally("GET", "/api/v1/me", ("Host", "x"), ("Authorization", "Bearer sjt_nonsense"))

    assert good.json["role"] == "viewer"
    assert bad.status == 401


async def test_who_shows_nothing_is_told_what_to_show(guarded_server: GuardedServer) -> None:
    answer = await guarded_server.ask("GET", "/api/v1/pods")

    assert answer.status == 401
    assert answer.header("www-authenticate") == 'Bearer realm="scrubjay"'
    assert set(answer.json["error"]) == {"code", "message", "hint"}
    assert "scrubjay login" in answer.json["error"]["hint"]


async def test_only_bearer_tokens_are_understood(guarded_server: GuardedServer) -> None:
    _, bearer = await guarded_server.bearer()
    token = bearer.removeprefix("Bearer ")

    for value in (f"Basic {token}", token, "Bearer", "Bearer  ", f"Bearer {token} {token}", f"Token {token}"):
        assert (await guarded_server.ask("GET", "/api/v1/me", ("Authorization", value))).status == 401, value
    assert (await guarded_server.ask("GET", "/api/v1/me", ("Authorization", f"bearer {token}"))).status == 200


async def test_two_credentials_at_once_are_refused(guarded_server: GuardedServer) -> None:
    bearer, other, cookie = (
        await guarded_server.bearer(),
        await guarded_server.bearer("viewer"),
        await guarded_server.cookie(),
    )

    assert (await guarded_server.ask("GET", "/api/v1/me", bearer, cookie)).code == "two_credentials"
    assert (await guarded_server.ask("GET", "/api/v1/me", bearer, other)).code == "repeated_header"
    assert (await guarded_server.ask("GET", "/api/v1/me", bearer, bearer)).code == "repeated_header"


async def test_two_cookies_of_the_same_name_are_nobody(guarded_server: GuardedServer) -> None:
    _, first = await guarded_server.cookie()
    _, second = await guarded_server.cookie()

    assert (await guarded_server.ask("GET", "/api/v1/me", ("Cookie", f"{first}; {second}"))).status == 401
    assert (await guarded_server.ask("GET", "/api/v1/me", ("Cookie", f"theme=dark; {first}; x=y"))).status == 200


_MAY: dict[Role, dict[tuple[str, str], int]] = {
    "operator": {("GET", "/api/v1/pods"): 200, ("POST", "/api/v1/pods"): 200, ("GET", "/api/v1/tokens"): 200},
    "viewer": {("GET", "/api/v1/pods"): 200, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "runner": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "agent": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "pod": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
}


@pytest.mark.parametrize("role", list(_MAY))
async def test_a_role_comes_to_its_own_routes_only(guarded_server: GuardedServer, role: Role) -> None:
    pod = await guarded_server.add_pod()
    bearer = await guarded_server.bearer(role, pod=pod if role == "pod" else None)

    assert (await guarded_server.ask("GET", "/api/v1/me", bearer)).status == 200
    for (method, path), status in _MAY[role].items():
        answer = await guarded_server.ask(method, path, bearer, _JSON, body=_WRITE if method == "POST" else b"")
        assert answer.status == status, (method, path)
    foreign = "/api/v1/pods/" + "z" * 26
    looks = {"operator": 200, "viewer": 200, "runner": 403}.get(role, 404)
    assert (await guarded_server.ask("GET", foreign, bearer)).status == looks
    assert (await guarded_server.knock(f"{foreign}/live", bearer)).status == (101 if looks == 200 else looks)


async def test_a_pod_sees_itself_and_cannot_tell_which_others_there_are(guarded_server: GuardedServer) -> None:
    mine, other, unknown = await guarded_server.add_pod("mine"), await guarded_server.add_pod("other"), "z" * 26
    bearer = await guarded_server.bearer("pod", pod=mine)

    own = await guarded_server.ask("GET", f"/api/v1/pods/{mine}", bearer)
    foreign = await guarded_server.ask("GET", f"/api/v1/pods/{other}", bearer)
    nothing = await guarded_server.ask("GET", f"/api/v1/pods/{unknown}", bearer)

    assert own.status == 200
    assert foreign.status == nothing.status == 404
    assert foreign.body.replace(other.encode(), unknown.encode()) == nothing.body
    assert [pair for pair in foreign.headers if pair[0] != "date"] == [
        pair for pair in nothing.headers if pair[0] != "date"
    ]
    assert (await guarded_server.knock(f"/api/v1/pods/{mine}/live", bearer)).status == 101
    assert (await guarded_server.knock(f"/api/v1/pods/{other}/live", bearer)).status == 404


async def test_every_response_has_the_headers_that_make_a_browser_careful(guarded_server: GuardedServer) -> None:
    bearer = await guarded_server.bearer()
    answers = [
        await guarded_server.ask("GET", "/"),
        await guarded_server.ask("GET", "/login?code=x"),
        await guarded_server.ask("GET", "/api/v1/pods", bearer),
        await guarded_server.ask("GET", "/api/v1/pods"),
        await guarded_server.ask("GET", "/nothing", bearer),
        await guarded_server.ask("DELETE", "/api/v1/pods", bearer),
        await guarded_server.ask("GET", "/", ("Host", "evil.test")),
        await guarded_server.ask("POST", "/api/v1/pods", bearer, _JSON, body=b"not json"),
        await guarded_server.ask("POST", "/api/v1/pods", bearer, body=bytes(2 << 20)),
        await guarded_server.knock("/api/v1/flood"),
    ]

    assert [answer.status for answer in answers] == [200, 410, 200, 401, 404, 405, 421, 422, 413, 401]
    for answer in answers:
        policy = answer.header("content-security-policy") or ""
        assert {"default-src 'self'", "script-src 'self'", "object-src 'none'", "frame-ancestors 'none'"} <= set(
            policy.split("; ")
        )
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("cross-origin-opener-policy") == "same-origin"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        assert answer.header("cache-control") == "no-store"
        assert answer.header("server") is None


async def test_what_is_not_there_says_so_only_to_those_who_may_be_here(guarded_server: GuardedServer) -> None:
    bearer = await guarded_server.bearer()

    assert (await guarded_server.ask("GET", "/nothing")).status == 401
    assert (await guarded_server.ask("GET", "/nothing", bearer)).status == 404
    assert (await guarded_server.ask("GET", "/api/v1/pods/", bearer)).status == 404
    wrong = await guarded_server.ask("DELETE", "/api/v1/pods", bearer)
    assert (wrong.status, wrong.header("allow")) == (405, "GET, POST")
    upgrade = await guarded_server.ask("GET", "/api/v1/flood", bearer)
    assert (upgrade.status, upgrade.header("upgrade")) == (426, "websocket")
    assert (await guarded_server.ask("OPTIONS", "/api/v1/pods")).status == 401
    assert (await guarded_server.ask("TRACE", "/api/v1/pods", bearer)).status == 405


async def test_a_route_that_is_not_in_the_table_is_reached_by_nobody(guarded_server: GuardedServer) -> None:
    bearer = await guarded_server.bearer()

    assert (await guarded_server.ask("GET", "/forgotten", bearer)).status == 404
    assert (await guarded_server.ask("POST", "/forgotten", bearer)).status == 404
    assert (await guarded_server.knock("/forgotten", bearer)).status == 404
    assert (await guarded_server.ask_locally("GET", "/forgotten", ("Host", "x"))).status == 404


async def test_what_is_mounted_is_open_for_the_methods_of_the_table_only(guarded_server: GuardedServer) -> None:
    assert (await guarded_server.ask("GET", "/assets/page.js")).status == 200
    assert (await guarded_server.ask("HEAD", "/assets/page.js")).status == 200
    assert (await guarded_server.ask("GET", "/assets/../api/v1/pods")).status == 404
    assert (await guarded_server.ask("POST", "/assets/page.js")).status == 401
    assert (await guarded_server.knock("/assets/page.js")).status == 401


@pytest.mark.parametrize(
    "query",
    ["token=x", "access_token=x", "a=1&TOKEN=x", "api_key=x", "q=sjt_abcdefghijkl_x", "token", "%74oken=x"],
)
async def test_a_token_in_an_address_is_refused_even_with_a_good_one_in_a_header(
    guarded_server: GuardedServer, query: str
) -> None:
    bearer = await guarded_server.bearer()

    for answer in (
        await guarded_server.ask("GET", f"/api/v1/pods?{query}", bearer),
        await guarded_server.ask("GET", f"/healthz?{query}"),
        await guarded_server.knock(f"/api/v1/flood?{query}", bearer),
    ):
        assert (answer.status, answer.code) == (400, "token_in_address")
        assert b"sjt_a" not in answer.body
        assert "revoke" in answer.json["error"]["hint"]


async def test_who_fails_again_and_again_is_told_to_wait_and_nobody_else_is(
    timed_guarded_server: GuardedServer, clock: FakeClock
) -> None:
    good = await timed_guarded_server.bearer()
    bad = ("Authorization", "Bearer sjt_aaaaaaaaaaaa_" + "a" * 52)

    answers = [await timed_guarded_server.ask("GET", "/api/v1/me", bad) for _ in range(30)]

    assert [answer.status for answer in answers] == [401] * 20 + [429] * 10
    assert int(answers[-1].header("retry-after") or 0) == 20
    assert (await timed_guarded_server.ask("GET", "/api/v1/me", good)).status == 200
    clock.advance(25)
    assert (await timed_guarded_server.ask("GET", "/api/v1/me", bad)).status == 401


async def test_nobody_gets_in_while_the_catalog_cannot_be_read(timed_guarded_server: GuardedServer) -> None:
    guarded_server = timed_guarded_server
    bearer = await guarded_server.bearer()
    await guarded_server.database.close()

    answer = await guarded_server.ask("GET", "/api/v1/pods", bearer)

    assert (answer.status, answer.code) == (503, "unavailable")
    assert (await guarded_server.knock("/api/v1/flood", bearer)).status == 503
    assert (await guarded_server.ask("GET", "/healthz")).status == 200


async def test_a_token_in_use_is_noted_once_a_minute(timed_guarded_server: GuardedServer, clock: FakeClock) -> None:
    bearer = await timed_guarded_server.bearer()

    async def used() -> int | None:
        (row,) = await timed_guarded_server.gate.credentials.list_tokens()
        return row.used_us

    await timed_guarded_server.ask("GET", "/api/v1/me", bearer)
    first = await used()
    clock.advance(30)
    await timed_guarded_server.ask("GET", "/api/v1/me", bearer)
    assert first == await used() == clock.wall_us() - 30_000_000
    clock.advance(31)
    await timed_guarded_server.ask("GET", "/api/v1/me", bearer)
    assert await used() == clock.wall_us()


async def test_a_websocket_is_closed_before_it_is_open_where_a_server_cannot_answer_it(
    guarded_server: GuardedServer,
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/api/v1/flood",
        "query_string": b"",
        "headers": [(b"host", f"127.0.0.1:{guarded_server.port}".encode())],
    }
    await Guard(guarded_server.app, guarded_server.gate, table=TABLE)(scope, receive, send)

    assert sent == [{"type": "websocket.close", "code": 4401, "reason": "no_credential"}]


async def test_what_is_neither_http_nor_a_websocket_is_not_let_in(guarded_server: GuardedServer) -> None:
    async def never() -> Message:
        raise AssertionError

    async def send(_: Message) -> None:
        raise AssertionError

    with pytest.raises(NotImplementedError):
        await Guard(Starlette(), guarded_server.gate)({"type": "webtransport"}, never, send)
