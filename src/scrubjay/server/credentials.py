"""Make and check what people, runners and agents show at the door.

A token is ``sjt_<id>_<secret>``; a cookie ``<id>.<secret>``; a login code a secret alone. A secret has 260 random bits,
and only its digest is kept, so who reads the catalog can act for nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from scrubjay.errors import BadSetting, CatalogUnavailable, NoSuchPod
from scrubjay.fleet.access import Principal, Role
from scrubjay.ids import PodId, RunnerId, new_pod_id
from scrubjay.server.errors import TokenBound
from scrubjay.store import tokens
from scrubjay.store.database import Database
from scrubjay.store.pods import get_pod, list_pods
from scrubjay.store.retiring import retire_agent
from scrubjay.store.tokens import TokenRow

if TYPE_CHECKING:
    from scrubjay.clock import Clock

LOGIN_S = 600  # how long a login link is good for
BROWSER_S = 30 * 86_400  # how long a browser stays logged in
PASS_S = 3600  # how long a pass may wait for its pod; a clone of a large repository comes before it
CACHE_S = 3.0  # how long a credential is believed without asking the catalog

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_ID_LENGTH = 12
_SECRET_LENGTH = 52
_ID = f"[{_ALPHABET}]{{{_ID_LENGTH}}}"
_SECRET = f"[{_ALPHABET}]{{{_SECRET_LENGTH}}}"
_TOKEN = re.compile(f"sjt_({_ID})_{_SECRET}")
_COOKIE = re.compile(rf"({_ID})\.{_SECRET}")
_CODE = re.compile(_SECRET)
_CACHE_MAX = 1024
_NAME_MAX = 100
_PASS_US = PASS_S * 1_000_000


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; its text is never to be seen again."""

    row: TokenRow
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewPass:
    """The id of a pod that is yet to be started, and the token its agent shows."""

    pod: PodId
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewBrowser:
    """A browser just logged in."""

    principal: Principal
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    expires_us: int | None
    believed_until_us: int  # on the clock that only moves forward


def _random(length: int) -> str:
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in secrets.token_bytes(length))  # 256 is 8 times 32


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Credentials:
    """Tokens, login links and logged-in browsers, kept in the catalog."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._ended = 0  # counts what was forgotten, so that a check under way does not remember it again

    async def create_token(
        self, role: Role, *, name: str, pod: str | None = None, expires_us: int | None = None
    ) -> NewToken:
        """Make a token; its pod is given by id or name. NoSuchPod if there is none, BadSetting if it makes no sense."""
        _check_request(role, name=name, pod=pod, expires_us=expires_us, wall_us=self._clock.wall_us())

        def find(connection: Connection) -> PodId | None:
            return None if pod is None else _find_pod(connection, pod)

        return await self._add_token(role, name=name, find_pod=find, expires_us=expires_us)

    async def create_pass(self) -> NewPass:
        """Make the token of a pod that is yet to be started, and the pod's id."""
        pod = new_pod_id()
        created = await self._add_token("pod", name="agent", find_pod=lambda _connection: pod, expires_us=None)
        return NewPass(pod, created.text)

    async def revoke_pass(self, pod: PodId) -> list[str]:
        """End the pass of a pod that was not started; returns which tokens that were: none if the pod is there.

        Whoever calls this puts them out.
        """
        wall_us = self._clock.wall_us()

        def revoke(connection: Connection) -> list[str]:
            known = get_pod(connection, pod) is not None
            return [] if known else tokens.revoke_tokens_of(connection, pod, wall_us=wall_us)

        return await self._database.write(revoke)

    async def revoke_lost_passes(self) -> list[str]:
        """End the passes whose pods have not come within an hour; returns which tokens that were, to be put out."""
        wall_us = self._clock.wall_us()

        def lost(connection: Connection) -> set[PodId]:
            waiting = {token.pod for token in tokens.list_tokens(connection) if token.created_us <= wall_us - _PASS_US}
            return {pod for pod in waiting if pod is not None} - {facts.id for facts, _ in list_pods(connection)}

        if not await self._database.read(lost):
            return []  # without a write, as nearly always

        def revoke(connection: Connection) -> list[str]:
            return [
                token
                for pod in sorted(lost(connection))
                for token in tokens.revoke_tokens_of(connection, pod, wall_us=wall_us)
            ]

        return await self._database.write(revoke)

    async def _add_token(
        self, role: Role, *, name: str, find_pod: Callable[[Connection], PodId | None], expires_us: int | None
    ) -> NewToken:
        wall_us = self._clock.wall_us()
        id_ = _random(_ID_LENGTH)
        text = f"sjt_{id_}_{_random(_SECRET_LENGTH)}"
        digest = _digest(text)

        def add(connection: Connection) -> TokenRow:
            return tokens.add_token(
                connection,
                id=id_,
                digest=digest,
                role=role,
                name=name,
                pod=find_pod(connection),
                expires_us=expires_us,
                wall_us=wall_us,
            )

        return NewToken(await self._database.write(add), text)

    async def list_tokens(self) -> list[TokenRow]:
        """The tokens that are not revoked, without their secrets."""
        return await self._database.read(tokens.list_tokens)

    async def revoke_token(self, token: str) -> bool:
        """End a token; False if there is none with that id any more. The guard closes what it has open."""
        wall_us = self._clock.wall_us()

        def revoke(connection: Connection) -> bool:
            if not tokens.revoke_token(connection, token, wall_us=wall_us):
                return False
            retire_agent(connection, token, wall_us=wall_us)
            return True

        revoked = await self._database.write(revoke)
        self.forget(f"token:{token}")
        return revoked

    async def bind_runner(self, principal: Principal, runner: RunnerId) -> None:
        """Let a token belong to the runner that uses it first; TokenBound if it, or the runner, belongs elsewhere."""
        token, wall_us = _id_of(principal), self._clock.wall_us()
        if await self._database.read(lambda connection: tokens.runner_of_token(connection, token)) == runner:
            return  # without a write, which a full disk would not take
        await self._database.write(lambda connection: _bind(connection, token, runner, wall_us=wall_us))

    async def create_login(self, *, role: Role = "operator", name: str = "browser") -> tuple[str, int]:
        """Make a code that logs one browser in, once; and until when it is good."""
        wall_us = self._clock.wall_us()
        code, expires_us = _random(_SECRET_LENGTH), wall_us + LOGIN_S * 1_000_000
        await self._database.write(
            lambda connection: tokens.add_login(
                connection, digest=_digest(code), role=role, name=name, expires_us=expires_us, wall_us=wall_us
            )
        )
        return code, expires_us

    async def log_in(self, code: str, *, instead_of: Principal | None = None) -> NewBrowser | None:
        """Use a login code up; None if it is unknown, used or too old. ``instead_of`` is logged out with it."""
        if not _CODE.fullmatch(code):
            return None
        wall_us = self._clock.wall_us()
        id_ = _random(_ID_LENGTH)
        cookie = f"{id_}.{_random(_SECRET_LENGTH)}"
        digest = _digest(cookie)

        def use(connection: Connection) -> Principal | None:
            login = tokens.use_login(connection, _digest(code), wall_us=wall_us)
            if login is None:
                return None
            if instead_of is not None:
                tokens.end_browser(connection, _id_of(instead_of), wall_us=wall_us)
            tokens.add_browser(
                connection,
                id=id_,
                digest=digest,
                role=login.role,
                name=login.name,
                expires_us=wall_us + BROWSER_S * 1_000_000,
                wall_us=wall_us,
            )
            return Principal(f"browser:{id_}", login.role, login.name)

        principal = await self._database.write(use)
        if principal is None:
            return None
        if instead_of is not None:
            self.forget(instead_of.id)
        return NewBrowser(principal, cookie)

    async def log_out(self, principal: Principal) -> None:
        """End a browser's login."""
        wall_us = self._clock.wall_us()
        await self._database.write(
            lambda connection: tokens.end_browser(connection, _id_of(principal), wall_us=wall_us)
        )
        self.forget(principal.id)

    async def check_token(self, raw: str) -> Principal | None:
        """Whose token this is; None if it is no good."""
        shape = _TOKEN.fullmatch(raw)
        return None if shape is None else await self._check("token", shape[1], _digest(raw))

    async def check_cookie(self, raw: str) -> Principal | None:
        """Whose cookie this is; None if it is no good."""
        shape = _COOKIE.fullmatch(raw)
        return None if shape is None else await self._check("browser", shape[1], _digest(raw))

    async def still_good(self, principal: Principal) -> bool:
        """Whether somebody who was let in would be let in now, by what the catalog says."""
        if principal.id == "local":
            return True
        kind = principal.id.partition(":")[0]
        found = await self._database.read(lambda connection: _find(connection, kind, _id_of(principal)))
        return found is not None and not self._has_ended(found)

    def forget(self, principal_id: str) -> None:
        """Believe nothing about somebody any more without asking the catalog."""
        self._ended += 1
        for digest, known in list(self._known.items()):
            if known.principal.id == principal_id:
                del self._known[digest]

    async def _check(self, kind: str, id_: str, digest: bytes) -> Principal | None:
        if known := self._remembered(digest):
            return known
        before = self._ended
        found = await self._database.read(lambda connection: _find(connection, kind, id_))
        kept = found.digest if found is not None else bytes(32)
        if not hmac.compare_digest(kept, digest) or found is None or self._has_ended(found):
            return None
        if before == self._ended:
            self._remember(digest, found)
        await self._touch(found)
        return found.principal

    def _has_ended(self, found: _Found) -> bool:
        return found.ended or (found.expires_us is not None and found.expires_us <= self._clock.wall_us())

    def _remembered(self, digest: bytes) -> Principal | None:
        known = self._known.get(digest)
        if known is None:
            return None
        expired = known.expires_us is not None and known.expires_us <= self._clock.wall_us()
        if expired or known.believed_until_us <= self._clock.monotonic_us():
            del self._known[digest]
            return None
        return known.principal

    def _remember(self, digest: bytes, found: _Found) -> None:
        until_us = self._clock.monotonic_us() + round(CACHE_S * 1e6)
        self._known[digest] = _Known(found.principal, found.expires_us, until_us)
        if len(self._known) > _CACHE_MAX:
            self._known.popitem(last=False)

    async def _touch(self, found: _Found) -> None:
        wall_us = self._clock.wall_us()
        if found.token is None or not tokens.needs_touch(found.token, wall_us=wall_us):
            return
        try:
            await self._database.write(
                lambda connection: tokens.touch_token(connection, _id_of(found.principal), wall_us=wall_us)
            )
        except CatalogUnavailable:
            return  # who may come in must get in while the disk is full


@dataclass(frozen=True, slots=True)
class _Found:
    principal: Principal
    digest: bytes = field(repr=False)
    expires_us: int | None
    ended: bool
    token: TokenRow | None = None


def _find(connection: Connection, kind: str, id_: str) -> _Found | None:
    if kind == "token":
        if found := tokens.find_token(connection, id_):
            row, digest = found
            pod = None if row.pod is None else get_pod(connection, row.pod)
            # The agent of a pod goes by its pod's name: that is who others see typing.
            principal = Principal(f"token:{row.id}", row.role, pod[0].name if pod is not None else row.name, row.pod)
            return _Found(principal, digest, row.expires_us, row.revoked_us is not None, row)
        return None
    if found := tokens.find_browser(connection, id_):
        row, digest = found
        principal = Principal(f"browser:{row.id}", row.role, row.name)
        return _Found(principal, digest, row.expires_us, row.ended_us is not None)
    return None


def _id_of(principal: Principal) -> str:
    return principal.id.partition(":")[2]


def _bind(connection: Connection, token: str, runner: RunnerId, *, wall_us: int) -> None:
    if tokens.runner_of_token(connection, token) is not None:
        raise TokenBound(
            f"the token {token} belongs to another runner",
            hint="'scrubjay token create --role runner' makes one for this machine",
        )
    if (other := tokens.token_of_runner(connection, runner, wall_us=wall_us)) is not None:
        # Or who is given a token could bring the pods of any machine.
        raise TokenBound(
            f"this runner has the token {other}",
            hint=f"use that one; if it is lost, 'scrubjay token revoke {other}' and come again",
        )
    tokens.bind_token(connection, token, runner, wall_us=wall_us)


def _find_pod(connection: Connection, raw: str) -> PodId:
    pods = [facts for facts, _ in list_pods(connection)]
    # The newest of a name: earlier pods may have had it.
    for facts in sorted(pods, key=lambda facts: (facts.id == raw, facts.created_us), reverse=True):
        if raw in (facts.id, facts.name):
            return facts.id
    raise NoSuchPod(raw)


def _check_request(role: Role, *, name: str, pod: str | None, expires_us: int | None, wall_us: int) -> None:
    if (role == "pod") != (pod is not None):
        raise BadSetting(
            "a pod's token needs its pod" if role == "pod" else f"a token for the role {role} is not for one pod",
            hint="give --role pod together with --pod POD",
        )
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        raise BadSetting(
            f"{name[:_NAME_MAX]!r} cannot be a token's name", hint=f"use 1 to {_NAME_MAX} printable characters"
        )
    if expires_us is not None and expires_us <= wall_us:
        raise BadSetting("a token cannot end before it begins", hint="give a time in the future")


def cookie_name(port: int) -> str:
    """The cookie of the server at a port; browsers do not tell ports apart, so its name does."""
    return f"__Host-scrubjay-{port}"


def read_cookies(headers: list[str], name: str) -> list[str]:
    """The different values of a cookie in Cookie headers."""
    values: dict[str, None] = {}
    for header in headers:
        for part in header.split(";"):
            found, _, value = part.strip().partition("=")
            if found == name:
                values[value] = None
    return list(values)


def set_cookie(name: str, value: str, *, max_age_s: int) -> str:
    """A Set-Cookie header for this host alone that neither a script nor another site can use."""
    return f"{name}={value}; Max-Age={max_age_s}; Path=/; Secure; HttpOnly; SameSite=Strict"
