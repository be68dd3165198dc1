"""Tokens and login links: make, list, revoke."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from scrubjay.fleet.access import Role
from scrubjay.server.guard import ORIGIN
from scrubjay.server.login import login_link
from scrubjay.server.origins import Origin
from scrubjay.server.refusals import Refused
from scrubjay.server.rest.context import Asker, InGate
from scrubjay.server.rest.models import Model
from scrubjay.store.tokens import TokenRow

router = APIRouter(prefix="/api/v1", tags=["tokens"])


class Token(Model):
    """A token without its secret."""

    id: str
    role: Role
    name: str
    pod: str | None
    created_us: int
    expires_us: int | None
    used_us: int | None = Field(description="When it was last used, within a minute.")


class CreateToken(Model):
    """A token to be made."""

    role: Role
    name: str = Field(default="", max_length=100)
    pod: str | None = Field(default=None, description="The id or name of its pod, for the role pod.")
    expires_in_s: int | None = Field(default=None, gt=0, le=10 * 366 * 86_400)


class CreatedToken(Token):
    """A token that was just made."""

    token: str = Field(description="The token itself; it is shown this once.")


class CreateLogin(Model):
    """A login link to be made."""

    role: Role = "operator"
    name: str = Field(default="browser", min_length=1, max_length=100)


class CreatedLogin(Model):
    """A login link that was just made."""

    url: str = Field(description="Logs one browser in, once.")
    expires_us: int


class Me(Model):
    """Who asks."""

    id: str
    role: Role
    name: str
    pod: str | None


@router.get("/me", summary="Who you are")
async def me(asker: Asker) -> Me:
    """As the guard knows you."""
    return Me(id=asker.id, role=asker.role, name=asker.name, pod=asker.pod)


@router.get("/tokens", summary="All tokens that are not revoked")
async def all_tokens(gate: InGate) -> list[Token]:
    """Oldest first, expired ones too; never their secrets."""
    return [_describe(row) for row in await gate.credentials.list_tokens()]


@router.post("/tokens", status_code=201, summary="Make a token")
async def create_token(gate: InGate, wanted: CreateToken) -> CreatedToken:
    """The answer is the only place where it is ever seen."""
    expires_us = None
    if wanted.expires_in_s is not None:
        expires_us = gate.clock.wall_us() + wanted.expires_in_s * 1_000_000
    name = wanted.name or wanted.role
    created = await gate.credentials.create_token(wanted.role, name=name, pod=wanted.pod, expires_us=expires_us)
    return CreatedToken(**_describe(created.row).model_dump(), token=created.text)


@router.delete("/tokens/{token}", status_code=204, summary="Revoke a token")
async def revoke_token(gate: InGate, token: str) -> Response:
    """What it has open is closed before this returns, or within two seconds if the other side does not read."""
    if not await gate.credentials.revoke_token(token):
        # Without its name, which may be a whole token.
        raise Refused(404, "no_such_token", "there is no such token", hint="'scrubjay token list' lists their ids")
    await gate.put_out(f"token:{token}", reason="revoked")
    return Response(status_code=204)


@router.post("/logins", status_code=201, summary="Make a login link")
async def create_login(request: Request, gate: InGate, wanted: CreateLogin) -> CreatedLogin:
    """It works once, within ten minutes, at the address that this request came to."""
    code, expires_us = await gate.credentials.create_login(role=wanted.role, name=wanted.name)
    reached: Origin | None = request.scope[ORIGIN]
    return CreatedLogin(url=login_link(reached or gate.addresses.origins[0], code), expires_us=expires_us)


def _describe(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        role=row.role,
        name=row.name,
        pod=row.pod,
        created_us=row.created_us,
        expires_us=row.expires_us,
        used_us=row.used_us,
    )
