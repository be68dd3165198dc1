"""Tools to be let at another agent's terminal, and to let others at one's own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scrubjay.server.mcp.arguments import At, IdempotencyKey, Pod, Reason
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.tape.record import Json

Scopes = Annotated[
    list[Literal["terminal:read", "terminal:write"]],
    Field(min_length=1, description="terminal:read to see its screen and history, terminal:write to type into it."),
]
BindingId = Annotated[str, Field(description="The id of a binding.")]


@tool(idempotent=True)
async def request_binding(
    desk: Desk, pod: Pod, scopes: Scopes, reason: Reason = None, idempotency_key: IdempotencyKey = None
) -> Json:
    """Ask to read or type into another pod's terminal. It is pending until that pod or a person accepts; you are seen
    to wait for it."""
    return await desk.coordination.bindings.request(
        desk.actor, target=pod, scopes=list(scopes), reason=reason, key=idempotency_key
    )


@tool(destructive=True)
async def answer_binding(
    desk: Desk,
    binding: BindingId,
    *,
    accept: Annotated[bool, Field(description="True grants what is asked for, false refuses it.")],
    scopes: Annotated[
        list[Literal["terminal:read", "terminal:write"]] | None,
        Field(description="Grant only these of what is asked for."),
    ] = None,
    reason: Reason = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Grant or refuse what another agent asked for on your terminal. Whoever may type to you can make you do things."""
    return await desk.coordination.bindings.answer(
        desk.actor,
        binding,
        accept=accept,
        scopes=list(scopes) if scopes is not None else None,
        reason=reason,
        key=idempotency_key,
    )


@tool(destructive=True)
async def unbind(desk: Desk, binding: BindingId, reason: Reason = None, idempotency_key: IdempotencyKey = None) -> Json:
    """End a binding of yours, whichever side you are."""
    return await desk.coordination.bindings.unbind(desk.actor, binding, reason=reason, key=idempotency_key)


@tool(read_only=True)
async def list_bindings(
    desk: Desk,
    at: At = None,
    *,
    include_ended: Annotated[bool, Field(description="Also rejected, expired and ended ones.")] = False,
) -> Json:
    """Your bindings: who may do what to whom, granted and pending."""
    at_us = desk.instant(at)
    return {"bindings": await desk.coordination.bindings.list(desk.actor, at_us=at_us, ended=include_ended)}


TOOLS: tuple[Tool, ...] = (request_binding, answer_binding, unbind, list_bindings)
