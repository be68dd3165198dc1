"""Channels and inboxes: what was said, by whom and to whom."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from scrubjay.server.coordination.channels import MESSAGES_MAX, Post
from scrubjay.server.rest import coordination_models as models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import InTower, RawInstant
from scrubjay.server.rest.once import IdempotencyKey

router = APIRouter(prefix="/api/v1", tags=["channels"])
RawChannel = Annotated[str, Path(description="A channel's name; @POD is a pod's inbox.")]
RawMember = Annotated[str, Path(description="A pod's name, id, or a unique beginning of either.")]
Most = Annotated[int, Query(ge=1, le=MESSAGES_MAX)]


@router.get("/channels", summary="All channels, now or at an instant")
async def all_channels(
    tower: InTower, coordination: InCoordination, actor: TheActor, at: RawInstant = None
) -> list[models.Channel]:
    """By name, without inboxes and those that are archived."""
    found = await coordination.channels.list(actor, at_us=past_us(tower, at))
    return [models.Channel.model_validate(channel) for channel in found]


@router.post("/channels", status_code=201, summary="Make a channel")
async def create(
    coordination: InCoordination,
    actor: TheActor,
    wanted: models.CreateChannel,
    idempotency_key: IdempotencyKey = None,
) -> models.Channel:
    """Its members know one another from then on."""
    made = await coordination.channels.create(
        actor,
        wanted.name,
        purpose=wanted.purpose,
        private=wanted.private,
        members=wanted.members,
        key=idempotency_key,
    )
    return models.Channel.model_validate(made)


@router.delete("/channels/{channel}", summary="Archive a channel")
async def archive(coordination: InCoordination, actor: TheActor, channel: RawChannel) -> models.Channel:
    """Nobody says anything there any more; what was said stays, and is read by the channel's id."""
    return models.Channel.model_validate(await coordination.channels.archive(actor, channel))


@router.put("/channels/{channel}/members/{member}", summary="Let a pod be in a channel")
async def join(coordination: InCoordination, actor: TheActor, channel: RawChannel, member: RawMember) -> models.Channel:
    """It sees what was said there, and whoever is in it; the same if it is in it already."""
    return models.Channel.model_validate(await coordination.channels.join(actor, channel, members=[member]))


@router.delete("/channels/{channel}/members/{member}", summary="Let a pod be in a channel no longer")
async def leave(
    coordination: InCoordination, actor: TheActor, channel: RawChannel, member: RawMember
) -> models.Channel:
    """The same if it is not in it."""
    return models.Channel.model_validate(await coordination.channels.leave(actor, channel, member=member))


@router.get("/channels/{channel}/messages", summary="What was said in a channel")
async def read(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    channel: RawChannel,
    after: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    limit: Most = 50,
    at: RawInstant = None,
) -> models.Messages:
    """The newest, in order, or those after a number; ``at`` leaves out what was said later."""
    found = await coordination.channels.read(actor, channel, after=after, limit=limit, at_us=past_us(tower, at))
    return models.Messages.model_validate(found)


@router.post("/channels/{channel}/messages", status_code=201, summary="Say something in a channel")
async def post(
    coordination: InCoordination,
    actor: TheActor,
    channel: RawChannel,
    message: models.PostMessage,
    idempotency_key: IdempotencyKey = None,
) -> models.Message:
    """It comes into the inbox of whom it mentions, by ``mentions`` or by ``@name`` in its text."""
    said = Post(
        message.text,
        channel=channel,
        mentions=message.mentions,
        reply_to=message.reply_to,
        expects_reply=message.expects_reply,
    )
    return models.Message.model_validate(await coordination.channels.post(actor, said, key=idempotency_key))


@router.get("/pods/{pod}/inbox", summary="What is for a pod")
async def inbox(
    coordination: InCoordination,
    actor: TheActor,
    pod: RawMember,
    limit: Most = 50,
    *,
    all: Annotated[bool, Query(description="Also what it has taken note of.")] = False,  # noqa: A002
) -> models.Inbox:
    """Looking changes nothing: what is queued is so still."""
    return models.Inbox.model_validate(await coordination.channels.look_into(actor, pod, limit=limit, everything=all))


@router.post("/pods/{pod}/messages", status_code=201, summary="Say something to one pod")
async def tell(
    coordination: InCoordination,
    actor: TheActor,
    pod: RawMember,
    message: models.TellPod,
    idempotency_key: IdempotencyKey = None,
) -> models.Message:
    """It comes into its inbox."""
    said = Post(message.text, to=pod, expects_reply=message.expects_reply)
    return models.Message.model_validate(await coordination.channels.post(actor, said, key=idempotency_key))
