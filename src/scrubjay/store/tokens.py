"""Who may come in: tokens, single-use logins and the browsers that used one.

Only digests of secrets are kept, and no event has one. What is found may be revoked or expired: whoever asks decides,
by the clock on the wall.
"""

# ruff: noqa: A002 - a token has an id, and so has a browser

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from scrubjay.fleet.access import Role
from scrubjay.ids import PodId, RunnerId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.tape.record import Json

TOUCH_EVERY_US = 60_000_000  # enough to tell a token in use from a forgotten one

_TOKEN, _LOGIN, _BROWSER, _BOUND = schema.token, schema.login, schema.browser, schema.runner_token
_TOKEN_COLUMNS = (
    *(_TOKEN.c.id, _TOKEN.c.role, _TOKEN.c.name, _TOKEN.c.pod),
    *(_TOKEN.c.since_us, _TOKEN.c.expires_us, _TOKEN.c.until_us, _TOKEN.c.used_us),
)
_BROWSER_COLUMNS = tuple(_BROWSER.c[name] for name in ("id", "role", "name", "since_us", "expires_us", "until_us"))
_TOKENS, _LOGINS, _BROWSERS = Facts(_TOKEN, "id"), Facts(_LOGIN, "digest"), Facts(_BROWSER, "id")
_FIND_TOKEN = select(*_TOKEN_COLUMNS, _TOKEN.c.digest).where(_TOKEN.c.id == bindparam("of"))
_FIND_BROWSER = select(*_BROWSER_COLUMNS, _BROWSER.c.digest).where(_BROWSER.c.id == bindparam("of"))
_ALL_TOKENS = TimedQuery(
    lambda moment: select(*_TOKEN_COLUMNS).where(holds(_TOKEN, moment)).order_by(_TOKEN.c.since_event)
)
_USABLE_LOGIN = select(_LOGIN.c.role, _LOGIN.c.name).where(
    *(_LOGIN.c.digest == bindparam("of"), _LOGIN.c.until_event.is_(None), _LOGIN.c.expires_us > bindparam("now_us"))
)
_TOUCH = (
    update(_TOKEN)
    .where(_TOKEN.c.id == bindparam("of"), or_(_TOKEN.c.used_us.is_(None), _TOKEN.c.used_us <= bindparam("due_us")))
    .values(used_us=bindparam("now_us"))
)
_BOUND_TO = select(_BOUND.c.runner).where(_BOUND.c.token == bindparam("of"))
_BOUND_FROM = (
    select(_TOKEN.c.id)
    .join(_BOUND, _BOUND.c.token == _TOKEN.c.id)
    .where(_BOUND.c.runner == bindparam("of"), _TOKEN.c.until_event.is_(None))
    .where(or_(_TOKEN.c.expires_us.is_(None), _TOKEN.c.expires_us > bindparam("now_us")))
)
_BIND = insert(_BOUND)


_AGENTS = select(schema.token.c.id, schema.token.c.name).where(schema.token.c.role == "agent")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret."""

    id: str
    role: Role
    name: str
    pod: PodId | None
    created_us: int
    expires_us: int | None
    revoked_us: int | None
    used_us: int | None  #: within a minute


@dataclass(frozen=True, slots=True)
class LoginRow:
    """A login that has just been used."""

    role: Role
    name: str


@dataclass(frozen=True, slots=True)
class BrowserRow:
    """A browser that has logged in."""

    id: str
    role: Role
    name: str
    created_us: int
    expires_us: int
    ended_us: int | None


def add_token(
    connection: Connection,
    *,
    id: str,
    digest: bytes,
    role: Role,
    name: str,
    pod: PodId | None,
    expires_us: int | None,
    wall_us: int,
) -> TokenRow:
    """Add a token. The event is ``token.created``."""
    data: Json = {"token": id, "role": role, "name": name}
    event = append_event(connection, "token.created", wall_us=wall_us, pod=pod, data=data)
    values = {"id": id, "digest": digest, "role": role, "name": name, "pod": pod, "expires_us": expires_us}
    _TOKENS.open(connection, event, values)
    return TokenRow(id, role, name, pod, event.wall_us, expires_us, None, None)


def find_token(connection: Connection, id: str) -> tuple[TokenRow, bytes] | None:
    """A token, revoked and expired ones included, and the digest of its secret."""
    row = connection.execute(_FIND_TOKEN, {"of": id}).first()
    return None if row is None else (_read_token(row[:-1]), row[-1])


def list_tokens(connection: Connection, *, at_us: int | None = None) -> list[TokenRow]:
    """The tokens that are, or at an instant were, not revoked, oldest first; expired ones are among them."""
    tokens = [_read_token(row) for row in _ALL_TOKENS.run(connection, at_us)]
    if at_us is None:
        return tokens
    return [
        replace(token, revoked_us=None, used_us=token.used_us if (token.used_us or 0) <= at_us else None)
        for token in tokens
    ]


def agent_names(connection: Connection) -> dict[str, str]:
    """What agents outside pods are called, by the ids of their tokens, revoked ones included."""
    return {str(row.id): str(row.name) for row in connection.execute(_AGENTS)}


def revoke_token(connection: Connection, id: str, *, wall_us: int) -> bool:
    """Revoke a token; False if there is none, or not any more. The event is ``token.revoked``."""
    found = find_token(connection, id)
    return found is not None and found[0].revoked_us is None and bool(_revoke(connection, [found[0]], wall_us))


def revoke_tokens_of(connection: Connection, pod: PodId, *, wall_us: int) -> list[str]:
    """Revoke the tokens of a pod; returns which. One event ``token.revoked`` each."""
    return _revoke(connection, [token for token in list_tokens(connection) if token.pod == pod], wall_us)


def touch_token(connection: Connection, id: str, *, wall_us: int) -> None:
    """Note that a token is in use, at most once a minute; ``needs_touch`` says when this is worth a write."""
    connection.execute(_TOUCH, {"of": id, "now_us": wall_us, "due_us": wall_us - TOUCH_EVERY_US})


def needs_touch(token: TokenRow, *, wall_us: int) -> bool:
    """Whether it is a minute since a token was last noted to be in use."""
    return token.used_us is None or token.used_us <= wall_us - TOUCH_EVERY_US


def runner_of_token(connection: Connection, token: str) -> RunnerId | None:
    """The runner that a token belongs to; None until one has used it."""
    return connection.execute(_BOUND_TO, {"of": token}).scalar_one_or_none()


def token_of_runner(connection: Connection, runner: RunnerId, *, wall_us: int) -> str | None:
    """The good token that belongs to a runner; None if there is none, or not any more."""
    return connection.execute(_BOUND_FROM, {"of": runner, "now_us": wall_us}).scalar()


def bind_token(connection: Connection, token: str, runner: RunnerId, *, wall_us: int) -> None:
    """Let a token that nobody has used belong to a runner. The event is ``token.bound``."""
    append_event(connection, "token.bound", wall_us=wall_us, data={"token": token, "runner": runner})
    connection.execute(_BIND, {"token": token, "runner": runner})


def add_login(connection: Connection, *, digest: bytes, role: Role, name: str, expires_us: int, wall_us: int) -> None:
    """Offer a login that can be used once. The event is ``login.created``."""
    event = append_event(connection, "login.created", wall_us=wall_us, data={"role": role, "name": name})
    _LOGINS.open(connection, event, {"digest": digest, "role": role, "name": name, "expires_us": expires_us})


def use_login(connection: Connection, digest: bytes, *, wall_us: int) -> LoginRow | None:
    """Use a login up; None if it is unknown, used or expired. The event is ``login.used``."""
    row = connection.execute(_USABLE_LOGIN, {"of": digest, "now_us": wall_us}).first()
    if row is None:
        return None
    login = LoginRow(*row)
    event = append_event(connection, "login.used", wall_us=wall_us, data={"role": login.role, "name": login.name})
    _LOGINS.close(connection, event, digest)
    return login


def add_browser(
    connection: Connection,
    *,
    id: str,
    digest: bytes,
    role: Role,
    name: str,
    expires_us: int,
    wall_us: int,
) -> BrowserRow:
    """Let a browser in until it expires. The event is ``browser.created``."""
    data: Json = {"browser": id, "role": role, "name": name}
    event = append_event(connection, "browser.created", wall_us=wall_us, data=data)
    values = {"id": id, "digest": digest, "role": role, "name": name, "expires_us": expires_us}
    _BROWSERS.open(connection, event, values)
    return BrowserRow(id, role, name, event.wall_us, expires_us, None)


def find_browser(connection: Connection, id: str) -> tuple[BrowserRow, bytes] | None:
    """A browser, ended and expired ones included, and the digest of its secret."""
    row = connection.execute(_FIND_BROWSER, {"of": id}).first()
    return None if row is None else (_read_browser(row[:-1]), row[-1])


def end_browser(connection: Connection, id: str, *, wall_us: int) -> bool:
    """Log a browser out; False if it is not in. The event is ``browser.ended``."""
    found = find_browser(connection, id)
    if found is None or found[0].ended_us is not None:
        return False
    browser = found[0]
    data: Json = {"browser": id, "role": browser.role, "name": browser.name}
    event = append_event(connection, "browser.ended", wall_us=wall_us, data=data)
    _BROWSERS.close(connection, event, id)
    return True


def _revoke(connection: Connection, tokens: list[TokenRow], wall_us: int) -> list[str]:
    for token in tokens:
        data: Json = {"token": token.id, "role": token.role, "name": token.name}
        event = append_event(connection, "token.revoked", wall_us=wall_us, pod=token.pod, data=data)
        _TOKENS.close(connection, event, token.id)
    return [token.id for token in tokens]


def _read_token(row: Row[*tuple[Any, ...]] | tuple[Any, ...]) -> TokenRow:
    return TokenRow(*row)


def _read_browser(row: Row[*tuple[Any, ...]] | tuple[Any, ...]) -> BrowserRow:
    return BrowserRow(*row)
