"""Tools to talk: channels, messages, and one's own inbox."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.fleet.untrusted import NOTE
from scrubjay.server.coordination.channels import Post
from scrubjay.server.mcp.arguments import IdempotencyKey
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.tape.record import Json

ChannelName = Annotated[str, Field(description="A channel's name.")]


@tool()
async def post_message(
    desk: Desk,
    text: Annotated[str, Field(description="What to say; @name mentions a member, @everyone all.")],
    channel: Annotated[str | None, Field(description="Where; or give to.")] = None,
    to: Annotated[str | None, Field(description="One pod, into its inbox; or give channel.")] = None,
    mentions: Annotated[list[str] | None, Field(description="Pods it is for: it comes to their inboxes.")] = None,
    reply_to: Annotated[int | None, Field(ge=1, description="The number of the message it answers.")] = None,
    *,
    expects_reply: Annotated[bool, Field(description="You are seen to wait for whom it asks.")] = False,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Say something in a channel or to one pod. Only who is mentioned is told; others may read the channel."""
    post = Post(text, channel, to, tuple(mentions or ()), reply_to, expects_reply)
    return await desk.coordination.channels.post(desk.actor, post, key=idempotency_key)


@tool(idempotent=True)
async def read_inbox(
    desk: Desk,
    channel: Annotated[str | None, Field(description="Read this channel instead, whoever it was for.")] = None,
    after: Annotated[int | None, Field(ge=0, description="Of a channel: only messages after this number.")] = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
) -> Json:
    """Messages for you that you have not acknowledged, oldest first. Acknowledge them when you have dealt with them."""
    channels = desk.coordination.channels
    if channel is None:
        return {"note": NOTE, **await channels.inbox(desk.actor, limit=limit)}
    return {"note": NOTE, **await channels.read(desk.actor, channel, after=after, limit=limit)}


@tool(idempotent=True)
async def acknowledge(
    desk: Desk,
    messages: Annotated[list[str], Field(min_length=1, max_length=200, description="Their ids, such as build#12.")],
) -> Json:
    """Take note of messages in your inbox, so that they do not come again."""
    return await desk.coordination.channels.acknowledge(desk.actor, messages)


@tool()
async def create_channel(
    desk: Desk,
    name: ChannelName,
    purpose: Annotated[str | None, Field(max_length=500, description="What it is for.")] = None,
    members: Annotated[list[str] | None, Field(description="Pods to ask in.")] = None,
    *,
    private: Annotated[bool, Field(description="Only those asked in see it; else every agent may join.")] = False,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Make a channel. Its members know one another by name."""
    return await desk.coordination.channels.create(
        desk.actor, name, purpose=purpose, private=private, members=tuple(members or ()), key=idempotency_key
    )


@tool(read_only=True)
async def list_channels(desk: Desk) -> Json:
    """Channels you are in, and open ones you may join."""
    return {"channels": await desk.coordination.channels.list(desk.actor)}


@tool(idempotent=True)
async def join_channel(
    desk: Desk,
    channel: ChannelName,
    members: Annotated[list[str] | None, Field(description="Others to ask in, instead of yourself.")] = None,
) -> Json:
    """Be in an open channel: its members know you then, and you them."""
    return await desk.coordination.channels.join(desk.actor, channel, members=tuple(members or ()))


@tool(destructive=True, idempotent=True)
async def leave_channel(desk: Desk, channel: ChannelName) -> Json:
    """Be in a channel no longer."""
    return await desk.coordination.channels.leave(desk.actor, channel)


TOOLS: tuple[Tool, ...] = (
    post_message,
    read_inbox,
    acknowledge,
    create_channel,
    list_channels,
    join_channel,
    leave_channel,
)
