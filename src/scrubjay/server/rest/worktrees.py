"""Git worktrees of the fleet's machines."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, cast

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from scrubjay.errors import ScrubjayError
from scrubjay.server.rest import models
from scrubjay.server.rest.context import InTower
from scrubjay.store.worktrees import remove_worktree
from scrubjay.tape.record import Json
from scrubjay.wire import messages

router = APIRouter(prefix="/api/v1/worktrees", tags=["worktrees"])
OnRunner = Annotated[str | None, Query(description="A runner's name or id; needed where there are several.")]


@router.get("", summary="All worktrees and what state they are in")
async def all_worktrees(tower: InTower) -> list[models.Worktree]:
    """Of every machine that is connected."""
    peers = list(tower.peers.values())
    answers = await asyncio.gather(*(peer.ask(messages.ListWorktrees()) for peer in peers), return_exceptions=True)
    found: list[models.Worktree] = []
    for peer, answer in zip(peers, answers, strict=True):
        if isinstance(answer, ScrubjayError):
            continue  # it went away while it was asked
        if isinstance(answer, BaseException):
            raise answer
        found += [models.Worktree(runner=peer.id, **tree) for tree in cast(list[Json], answer["worktrees"])]  # pyright: ignore[reportArgumentType]
    return found


@router.get("/{name}/diff", summary="What was changed in a worktree")
async def diff(tower: InTower, name: str, runner: OnRunner = None) -> models.Diff:
    """Since it was made: commits, and what is not committed yet."""
    answer = await tower.choose_runner(runner).ask(messages.DiffWorktree(name=name))
    return models.Diff.model_validate(answer)


@router.get("/{name}/patch", summary="The same as a patch", response_class=PlainTextResponse)
async def patch(tower: InTower, name: str, runner: OnRunner = None) -> PlainTextResponse:
    """As ``git diff`` prints it."""
    answer = await tower.choose_runner(runner).ask(messages.DiffWorktree(name=name, patch=True))
    return PlainTextResponse(str(answer["patch"]))


@router.delete("/{name}", summary="Remove a worktree")
async def remove(tower: InTower, name: str, runner: OnRunner = None, *, force: bool = False) -> models.Done:
    """Only a clean one, unless forced; its branch and commits stay."""
    peer = tower.choose_runner(runner)
    await peer.ask(messages.RemoveWorktree(name=name, force=force))
    gone = partial(remove_worktree, runner=peer.id, name=name, wall_us=tower.clock.wall_us())
    await tower.database.write(gone)
    return models.Done()
