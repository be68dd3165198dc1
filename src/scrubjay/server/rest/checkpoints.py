"""Worktrees of pods as they were: list, compare, begin anew with one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import PlainTextResponse

from scrubjay.errors import NoWorktree
from scrubjay.ids import PodId
from scrubjay.replay.reel import Reel
from scrubjay.server.peer import CLONE_WITHIN_S
from scrubjay.server.rest import checkpoint_models as models
from scrubjay.server.rest.context import Asker, InGate, InTower, ThePod, pod_id
from scrubjay.server.rest.once import IdempotencyKey, once
from scrubjay.server.rest.pods import start_with_pass
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.tape.record import Json
from scrubjay.wire import messages
from scrubjay.wire.checkpoints import END_US, Checkpoint, Instant, checkpoint_at

_WITHIN_S = 120.0  # of a large worktree

router = APIRouter(prefix="/api/v1/pods/{pod}", tags=["checkpoints"])


def _known_to_people(
    tower: InTower, pod: Annotated[str, Path(description="A pod's name, id, or a unique beginning of either.")]
) -> KnownPod:
    # Not by the guard: what lets an agent see another's terminal does not let it see that one's files.
    return tower.find(pod)


TheirPod = Annotated[KnownPod, Depends(_known_to_people)]
RawAt = Annotated[
    str | None, Query(description="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET; now without.")
]
RawSince = Annotated[
    str | None, Query(description="The same: compare with the worktree then, instead of what it was made from.")
]


@router.get("/checkpoints", summary="What was kept of a pod's worktree")
async def all_checkpoints(tower: InTower, known: TheirPod) -> list[models.Checkpoint]:
    """Oldest first: whenever its agent came to be idle or to wait, and at its end, unless nothing had changed."""
    return [_describe(each) for each in await _list(tower, known)]


@router.get("/diff", summary="What was changed in a pod's worktree, up to now or an instant")
async def diff(tower: InTower, known: TheirPod, at: RawAt = None, since: RawSince = None) -> models.CheckpointDiff:
    """With the last checkpoints up to these instants."""
    to, start = await _ends(tower, known, at, since)
    answer = await _ask_diff(tower, known, to, start, patch=False)
    described: Json = {
        "at": _describe(to) if to is not None else None,
        "since": _describe(start) if start is not None else None,
    }
    return models.CheckpointDiff.model_validate(answer | described)


@router.get("/patch", summary="The same as a patch", response_class=PlainTextResponse)
async def patch(tower: InTower, known: TheirPod, at: RawAt = None, since: RawSince = None) -> PlainTextResponse:
    """As ``git diff`` prints it."""
    to, start = await _ends(tower, known, at, since)
    answer = await _ask_diff(tower, known, to, start, patch=True)
    return PlainTextResponse(str(answer["patch"]))


@router.post("/fork", status_code=201, summary="Begin anew with the files a pod had at an instant")
async def fork(
    tower: InTower,
    gate: InGate,
    asker: Asker,
    known: ThePod,
    wanted: models.Fork,
    idempotency_key: IdempotencyKey = None,
) -> models.Forked:
    """In a worktree, branch and session of its own; a failed start leaves nothing behind."""

    async def carry_out() -> Json:
        checkpoint = await _find(tower, known, wanted.at)
        request = messages.Start(
            argv=tuple(wanted.command),
            agent=wanted.agent,
            prompt=wanted.prompt,
            name=wanted.name,
            environment=wanted.environment,
            cols=wanted.cols,
            rows=wanted.rows,
            checkpoint=messages.FromCheckpoint(pod=checkpoint.pod, commit=checkpoint.commit),
        )
        runner = tower.peer_of(known)
        if wanted.mcp:
            started = await start_with_pass(runner, request, gate)
        else:
            started = await runner.ask(request, timeout_s=CLONE_WITHIN_S)
        return started | {"checkpoint": msgspec.to_builtins(checkpoint)}

    answer = await once(tower, asker, idempotency_key, carry_out)
    await tower.until_known(PodId(str(answer["id"])))
    return models.Forked(
        id=str(answer["id"]),
        name=str(answer["name"]),
        session=str(answer["session"]),
        checkpoint=models.Checkpoint.model_validate(answer["checkpoint"]),
    )


def _describe(checkpoint: Checkpoint) -> models.Checkpoint:
    return models.Checkpoint.model_validate(msgspec.to_builtins(checkpoint))


async def _list(tower: Tower, known: KnownPod) -> list[Checkpoint]:
    if known.report.worktree is None:
        raise NoWorktree(known.report.name)
    answer = await tower.ask(known, messages.ListCheckpoints(pod=known.report.id), timeout_s=_WITHIN_S)
    return msgspec.convert(answer["checkpoints"], list[Checkpoint])


async def _find(tower: Tower, known: KnownPod, raw: str) -> Checkpoint:
    listed = await _list(tower, known)
    instant = await tower.cinema.show(pod_id(known), lambda reel: _locate(reel, raw))
    return checkpoint_at(known.report.name, listed, instant)


def _locate(reel: Reel, raw: str) -> Instant:
    moment = reel.locate(raw)
    at = END_US if moment.time >= reel.duration else moment.time
    return Instant(at=at, offset=moment.offset, shown=raw)


async def _ends(
    tower: Tower, known: KnownPod, raw_at: str | None, raw_since: str | None
) -> tuple[Checkpoint | None, Checkpoint | None]:
    if known.report.worktree is None:
        raise NoWorktree(known.report.name)
    to = await _find(tower, known, raw_at) if raw_at is not None else None
    start = await _find(tower, known, raw_since) if raw_since is not None else None
    return to, start


async def _ask_diff(
    tower: Tower, known: KnownPod, to: Checkpoint | None, start: Checkpoint | None, *, patch: bool
) -> Json:
    request = messages.DiffCheckpoint(
        pod=known.report.id,
        at=to.commit if to is not None else None,
        since=start.commit if start is not None else None,
        patch=patch,
    )
    return await tower.ask(known, request, timeout_s=_WITHIN_S)
