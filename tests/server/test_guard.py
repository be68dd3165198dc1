"""The door: who is let in, what everything that comes out has in common, and what is never let in."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from fake_clock import FakeClock
from scrubjay.fleet.access import Role
from scrubjay.server.guard import LOCAL, Guard
from server.house import TABLE, House

pytestmark = pytest.mark.anyio

_WRITE = b"{}"
_JSON = ("Content-Type", "application/json")


async def test_who_shows_a_good_token_is_let_in(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/me", await house.bearer("viewer"))

    assert answer.status == 200
    assert answer.json["role"] == "viewer"


async def test_who_shows_a_good_cookie_is_let_in(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/me", await house.cookie())

    assert answer.status == 200
    assert answer.json["id"].startswith("browser:")


async def test_the_same_user_at_the_unix_socket_is_an_operator_whatever_name_the_server_is_called_by(
    house: House,
) -> None:
    for host in ("scrubjay", "localhost", "evil.test"):
        answer = await house.ask_locally("GET", "/api/v1/me", ("Host", host))

        assert answer.json == {"id": "local", "role": "operator", "name": LOCAL.name, "pod": None}


async def test_a_token_shown_at_the_unix_socket_counts_more_than_the_user(house: House) -> None:
    good = await house.ask_locally("GET", "/api/v1/me", ("Host", "x"), await house.bearer("viewer"))
    bad = await house.ask_locally("GET", "/api/v1/me", ("Host", "x"), ("Authorization", "Bearer sjt_nonsense"))

    assert good.json["role"] == "viewer"
    assert bad.status == 401


async def test_who_shows_nothing_is_told_what_to_show(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/pods")

    assert answer.status == 401
    assert answer.header("www-authenticate") == 'Bearer realm="scrubjay"'
    assert set(answer.json["error"]) == {"code", "message", "hint"}
    assert "scrubjay login" in answer.json["error"]["hint"]


async def test_only_bearer_tokens_are_understood(house: House) -> None:
    _, bearer = await house.bearer()
    token = bearer.removeprefix("Bearer ")

    for value in (f"Basic {token}", token, "Bearer", "Bearer  ", f"Bearer {token} {token}", f"Token {token}"):
        assert (await house.ask("GET", "/api/v1/me", ("Authorization", value))).status == 401, value
    assert (await house.ask("GET", "/api/v1/me", ("Authorization", f"bearer {token}"))).status == 200


async def test_two_credentials_at_once_are_refused(house: House) -> None:
    bearer, other, cookie = await house.bearer(), await house.bearer("viewer"), await house.cookie()

    assert (await house.ask("GET", "/api/v1/me", bearer, cookie)).code == "two_credentials"
    assert (await house.ask("GET", "/api/v1/me", bearer, other)).code == "repeated_header"
    assert (await house.ask("GET", "/api/v1/me", bearer, bearer)).code == "repeated_header"


async def test_two_cookies_of_the_same_name_are_nobody(house: House) -> None:
    _, first = await house.cookie()
    _, second = await house.cookie()

    assert (await house.ask("GET", "/api/v1/me", ("Cookie", f"{first}; {second}"))).status == 401
    assert (await house.ask("GET", "/api/v1/me", ("Cookie", f"theme=dark; {first}; x=y"))).status == 200


_MAY: dict[Role, dict[tuple[str, str], int]] = {
    "operator": {("GET", "/api/v1/pods"): 200, ("POST", "/api/v1/pods"): 200, ("GET", "/api/v1/tokens"): 200},
    "viewer": {("GET", "/api/v1/pods"): 200, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "runner": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "agent": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
    "pod": {("GET", "/api/v1/pods"): 403, ("POST", "/api/v1/pods"): 403, ("GET", "/api/v1/tokens"): 403},
}


@pytest.mark.parametrize("role", list(_MAY))
async def test_a_role_comes_to_its_own_routes_only(house: House, role: Role) -> None:
    pod = await house.add_pod()
    bearer = await house.bearer(role, pod=pod if role == "pod" else None)

    assert (await house.ask("GET", "/api/v1/me", bearer)).status == 200
    for (method, path), status in _MAY[role].items():
        answer = await house.ask(method, path, bearer, _JSON, body=_WRITE if method == "POST" else b"")
        assert answer.status == status, (method, path)
    foreign = "/api/v1/pods/" + "z" * 26
    looks = {"operator": 200, "viewer": 200, "runner": 403}.get(role, 404)
    assert (await house.ask("GET", foreign, bearer)).status == looks
    assert (await house.knock(f"{foreign}/live", bearer)).status == (101 if looks == 200 else looks)


async def test_a_pod_sees_itself_and_cannot_tell_which_others_there_are(house: House) -> None:
    mine, other, unknown = await house.add_pod("mine"), await house.add_pod("other"), "z" * 26
    bearer = await house.bearer("pod", pod=mine)

    own = await house.ask("GET", f"/api/v1/pods/{mine}", bearer)
    foreign = await house.ask("GET", f"/api/v1/pods/{other}", bearer)
    nothing = await house.ask("GET", f"/api/v1/pods/{unknown}", bearer)

    assert own.status == 200
    assert foreign.status == nothing.status == 404
    assert foreign.body.replace(other.encode(), unknown.encode()) == nothing.body
    assert [pair for pair in foreign.headers if pair[0] != "date"] == [
        pair for pair in nothing.headers if pair[0] != "date"
    ]
    assert (await house.knock(f"/api/v1/pods/{mine}/live", bearer)).status == 101
    assert (await house.knock(f"/api/v1/pods/{other}/live", bearer)).status == 404


async def test_every_response_has_the_headers_that_make_a_browser_careful(house: House) -> None:
    bearer = await house.bearer()
    answers = [
        await house.ask("GET", "/"),
        await house.ask("GET", "/login?code=x"),
        await house.ask("GET", "/api/v1/pods", bearer),
        await house.ask("GET", "/api/v1/pods"),
        await house.ask("GET", "/nothing", bearer),
        await house.ask("DELETE", "/api/v1/pods", bearer),
        await house.ask("GET", "/", ("Host", "evil.test")),
        await house.ask("POST", "/api/v1/pods", bearer, _JSON, body=b"not json"),
        await house.ask("POST", "/api/v1/pods", bearer, body=bytes(2 << 20)),
        await house.knock("/api/v1/flood"),
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


async def test_what_is_not_there_says_so_only_to_those_who_may_be_here(house: House) -> None:
    bearer = await house.bearer()

    assert (await house.ask("GET", "/nothing")).status == 401
    assert (await house.ask("GET", "/nothing", bearer)).status == 404
    assert (await house.ask("GET", "/api/v1/pods/", bearer)).status == 404
    wrong = await house.ask("DELETE", "/api/v1/pods", bearer)
    assert (wrong.status, wrong.header("allow")) == (405, "GET, POST")
    upgrade = await house.ask("GET", "/api/v1/flood", bearer)
    assert (upgrade.status, upgrade.header("upgrade")) == (426, "websocket")
    assert (await house.ask("OPTIONS", "/api/v1/pods")).status == 401
    assert (await house.ask("TRACE", "/api/v1/pods", bearer)).status == 405


async def test_a_route_that_is_not_in_the_table_is_reached_by_nobody(house: House) -> None:
    bearer = await house.bearer()

    assert (await house.ask("GET", "/forgotten", bearer)).status == 404
    assert (await house.ask("POST", "/forgotten", bearer)).status == 404
    assert (await house.knock("/forgotten", bearer)).status == 404
    assert (await house.ask_locally("GET", "/forgotten", ("Host", "x"))).status == 404


async def test_what_is_mounted_is_open_for_the_methods_of_the_table_only(house: House) -> None:
    assert (await house.ask("GET", "/assets/page.js")).status == 200
    assert (await house.ask("HEAD", "/assets/page.js")).status == 200
    assert (await house.ask("GET", "/assets/../api/v1/pods")).status == 404
    assert (await house.ask("POST", "/assets/page.js")).status == 401
    assert (await house.knock("/assets/page.js")).status == 401


@pytest.mark.parametrize(
    "query",
    ["token=x", "access_token=x", "a=1&TOKEN=x", "api_key=x", "q=sjt_abcdefghijkl_x", "token", "%74oken=x"],
)
async def test_a_token_in_an_address_is_refused_even_with_a_good_one_in_a_header(house: House, query: str) -> None:
    bearer = await house.bearer()

    for answer in (
        await house.ask("GET", f"/api/v1/pods?{query}", bearer),
        await house.ask("GET", f"/healthz?{query}"),
        await house.knock(f"/api/v1/flood?{query}", bearer),
    ):
        assert (answer.status, answer.code) == (400, "token_in_address")
        assert b"sjt_a" not in answer.body
        assert "revoke" in answer.json["error"]["hint"]


async def test_who_fails_again_and_again_is_told_to_wait_and_nobody_else_is(
    timed_house: House, clock: FakeClock
) -> None:
    good = await timed_house.bearer()
    bad = ("Authorization", "Bearer sjt_aaaaaaaaaaaa_" + "a" * 52)

    answers = [await timed_house.ask("GET", "/api/v1/me", bad) for _ in range(30)]

    assert [answer.status for answer in answers] == [401] * 20 + [429] * 10
    assert int(answers[-1].header("retry-after") or 0) == 20
    assert (await timed_house.ask("GET", "/api/v1/me", good)).status == 200
    clock.advance(25)
    assert (await timed_house.ask("GET", "/api/v1/me", bad)).status == 401


async def test_nobody_gets_in_while_the_catalog_cannot_be_read(timed_house: House) -> None:
    house = timed_house
    bearer = await house.bearer()
    await house.database.close()

    answer = await house.ask("GET", "/api/v1/pods", bearer)

    assert (answer.status, answer.code) == (503, "unavailable")
    assert (await house.knock("/api/v1/flood", bearer)).status == 503
    assert (await house.ask("GET", "/healthz")).status == 200


async def test_a_token_in_use_is_noted_once_a_minute(timed_house: House, clock: FakeClock) -> None:
    bearer = await timed_house.bearer()

    async def used() -> int | None:
        (row,) = await timed_house.gate.credentials.list_tokens()
        return row.used_us

    await timed_house.ask("GET", "/api/v1/me", bearer)
    first = await used()
    clock.advance(30)
    await timed_house.ask("GET", "/api/v1/me", bearer)
    assert first == await used() == clock.wall_us() - 30_000_000
    clock.advance(31)
    await timed_house.ask("GET", "/api/v1/me", bearer)
    assert await used() == clock.wall_us()


async def test_a_websocket_is_closed_before_it_is_open_where_a_server_cannot_answer_it(house: House) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/api/v1/flood",
        "query_string": b"",
        "headers": [(b"host", f"127.0.0.1:{house.port}".encode())],
    }
    await Guard(house.app, house.gate, table=TABLE)(scope, receive, send)

    assert sent == [{"type": "websocket.close", "code": 4401, "reason": "no_credential"}]


async def test_what_is_neither_http_nor_a_websocket_is_not_let_in(house: House) -> None:
    async def never() -> Message:
        raise AssertionError

    async def send(_: Message) -> None:
        raise AssertionError

    with pytest.raises(NotImplementedError):
        await Guard(Starlette(), house.gate)({"type": "webtransport"}, never, send)
