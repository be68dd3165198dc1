"""Pods: list, start, type into, stop, delete."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Query
from msgspec import structs

from scrubjay.errors import BadInput, NoSuchPod
from scrubjay.fleet.process import describe_state
from scrubjay.ids import PodId
from scrubjay.server.errors import RunnerRefused
from scrubjay.server.gate import Gate
from scrubjay.server.peer import ANSWER_WITHIN_S, CLONE_WITHIN_S, Peer
from scrubjay.server.rest import models
from scrubjay.server.rest.acting import InCoordination, TheActor
from scrubjay.server.rest.context import Asker, InGate, InTower, RawInstant, ThePod, instant_us, pod_id
from scrubjay.server.rest.once import IdempotencyKey, once
from scrubjay.server.tower import Tower, author_of
from scrubjay.store.notices import Mute, mute_of, mute_pod, muted_pods, unmute_pod
from scrubjay.store.pods import PodFacts, get_pod, list_pods
from scrubjay.store.status import Status, status_history
from scrubjay.tape.record import Json
from scrubjay.wire import messages

_OVER = ("exited", "imported")

router = APIRouter(prefix="/api/v1/pods", tags=["pods"])

log = structlog.get_logger()


@router.get("", summary="All pods, now or at an instant")
async def all_pods(
    tower: InTower,
    at: RawInstant = None,
    *,
    all: Annotated[bool, Query(description="Ended ones too.")] = True,  # noqa: A002
) -> list[models.Pod]:
    """Oldest first."""
    at_us, wall_us = instant_us(tower, at), tower.clock.wall_us()
    found, muted = await tower.database.read(
        lambda connection: (list_pods(connection, at_us=at_us), muted_pods(connection, wall_us=wall_us, at_us=at_us))
    )
    return [
        _describe(tower, facts, status, now=at is None, mute=muted.get(facts.id))
        for facts, status in found
        if all or status.process not in _OVER
    ]


@router.get("/{pod}", summary="One pod, now or at an instant")
async def one_pod(tower: InTower, known: ThePod, at: RawInstant = None) -> models.Pod:
    """A pod that was not there yet, or no longer, is not found."""
    at_us, pod, wall_us = instant_us(tower, at), pod_id(known), tower.clock.wall_us()
    found, mute = await tower.database.read(
        lambda connection: (
            get_pod(connection, pod, at_us=at_us),
            mute_of(connection, pod, wall_us=wall_us, at_us=at_us),
        )
    )
    if found is None:
        raise NoSuchPod(known.report.name)
    return _describe(tower, *found, now=at is None, mute=mute)


@router.post("", status_code=201, summary="Start a pod")
async def start(
    tower: InTower, gate: InGate, asker: Asker, wanted: models.Start, idempotency_key: IdempotencyKey = None
) -> models.Started:
    """It runs, and its terminal is answered, when this returns; a failed start leaves nothing behind."""
    request = messages.Start(
        argv=tuple(wanted.command),
        agent=wanted.agent,
        prompt=wanted.prompt,
        name=wanted.name,
        session=wanted.session,
        cwd=wanted.cwd,
        repository=wanted.repository,
        branch=wanted.branch,
        base=wanted.base,
        environment=wanted.environment,
        cols=wanted.cols,
        rows=wanted.rows,
    )

    async def carry_out() -> Json:
        runner = tower.choose_runner(wanted.runner)
        if not wanted.mcp:
            return await runner.ask(request, timeout_s=CLONE_WITHIN_S)
        return await start_with_pass(runner, request, gate)

    answer = await once(tower, asker, idempotency_key, carry_out)
    await tower.until_known(PodId(str(answer["id"])))
    return models.Started(id=str(answer["id"]), name=str(answer["name"]), session=str(answer["session"]))


async def start_with_pass(runner: Peer, request: messages.Start, gate: Gate) -> Json:
    """Start a pod whose agent can come to this server's tools."""
    made = await gate.offer_pass()
    if made is None:
        return await runner.ask(request, timeout_s=CLONE_WITHIN_S)
    request = structs.replace(request, pod=made.pod, mcp_token=made.token)
    try:
        answer = await runner.ask(request, timeout_s=CLONE_WITHIN_S)
    except RunnerRefused:
        await gate.withdraw_pass(made.pod)
        raise
    if answer["id"] != made.pod:  # an older runner, which knows nothing of passes
        await gate.withdraw_pass(made.pod)
    return answer


@router.delete("/{pod}", summary="Delete a pod that has ended, with its tape")
async def remove(tower: InTower, known: ThePod) -> models.Done:
    """This cannot be undone."""
    await tower.ask(known, messages.Remove(pod=known.report.id))
    await tower.until_forgotten(pod_id(known))
    return models.Done()


@router.post("/{pod}/input", summary="Type into a pod")
async def type_into(
    coordination: InCoordination,
    gate: InGate,
    actor: TheActor,
    known: ThePod,
    typed: models.Input,
    idempotency_key: IdempotencyKey = None,
) -> models.Done:
    """It is on the tape and synced when this returns. The keyboard must be free, or taken over by a person."""
    if typed.takeover:
        await gate.permits.find(actor.principal, "control", known.report.id)
    typist, data = coordination.typist, _bytes_of(typed)
    if idempotency_key is None:
        answer = await typist.type(actor, known, data, enter=typed.enter, takeover=typed.takeover)
    else:
        answer = await typist.type_once(
            actor, known, data, enter=typed.enter, key=idempotency_key, takeover=typed.takeover
        )
    return models.Done(offset=_offset(answer))


def _bytes_of(typed: models.Input) -> bytes:
    if typed.data is None:
        return typed.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(typed.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput("data is not base64", hint="send text as text") from error


@router.post("/{pod}/mark", summary="Label this instant")
async def mark(tower: InTower, asker: Asker, known: ThePod, label: models.Label) -> models.Done:
    """It is on the tape and synced when this returns."""
    tower.require_running(known)
    asked = messages.Mark(pod=known.report.id, label=label.label, author=author_of(asker))
    return models.Done(offset=_offset(await tower.ask(known, asked)))


@router.post("/{pod}/resize", summary="Change the size of a pod's terminal")
async def resize(tower: InTower, known: ThePod, size: models.Size) -> models.Done:
    """Everybody who looks sees the new size."""
    tower.require_running(known)
    asked = messages.Resize(pod=known.report.id, cols=size.cols, rows=size.rows)
    return models.Done(offset=_offset(await tower.ask(known, asked)))


@router.post("/{pod}/signal", summary="Signal a pod's agent")
async def signal(tower: InTower, asker: Asker, known: ThePod, wanted: models.Signal) -> models.Done:
    """It goes to the agent and its foreground group."""
    tower.require_running(known)
    asked = messages.Signal(pod=known.report.id, signal=wanted.signal, author=author_of(asker))
    return models.Done(offset=_offset(await tower.ask(known, asked)))


@router.post("/{pod}/stop", summary="End a pod")
async def stop(tower: InTower, asker: Asker, known: ThePod, how: models.Stop | None = None) -> models.Ended:
    """TERM now, KILL after the grace; returns when its tape is complete."""
    tower.require_running(known)
    grace_s = how.grace_s if how is not None else models.Stop().grace_s
    asked = messages.Stop(pod=known.report.id, author=author_of(asker), grace_ms=int(grace_s * 1000))
    answer = await tower.ask(known, asked, timeout_s=grace_s + ANSWER_WITHIN_S)
    await tower.until_over(pod_id(known))
    status = answer.get("status")
    return models.Ended(process=str(answer.get("process")), exit_status=status if isinstance(status, int) else None)


@router.put("/{pod}/mute", summary="Give no notices of a pod")
async def mute(tower: InTower, known: ThePod, how: models.Mute | None = None) -> models.Done:
    """Until it is unmuted or deleted, or so long."""
    wall_us = tower.clock.wall_us()
    ends_us = wall_us + round(how.for_s * 1e6) if how is not None and how.for_s is not None else None
    await tower.database.write(partial(mute_pod, pod=pod_id(known), wall_us=wall_us, ends_us=ends_us))
    return models.Done()


@router.delete("/{pod}/mute", summary="Give notices of a pod again")
async def unmute(tower: InTower, known: ThePod) -> models.Done:
    """Nothing that happened meanwhile is made up for."""
    await tower.database.write(partial(unmute_pod, pod=pod_id(known), wall_us=tower.clock.wall_us()))
    return models.Done()


@router.get("/{pod}/status", summary="What a pod does, now or at an instant")
async def status(tower: InTower, known: ThePod, at: RawInstant = None) -> models.Status:
    """With evidence, and since when."""
    found = await tower.database.read(partial(get_pod, pod=pod_id(known), at_us=instant_us(tower, at)))
    if found is None:
        raise NoSuchPod(known.report.name)
    return describe_status(found[1])


@router.get("/{pod}/status/history", summary="What a pod has done")
async def history(
    tower: InTower,
    known: ThePod,
    since: RawInstant = None,
    until: RawInstant = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[models.Status]:
    """Oldest first, without holes."""
    body = partial(
        status_history,
        pod=pod_id(known),
        since_us=instant_us(tower, since),
        until_us=instant_us(tower, until),
        limit=limit,
    )
    return [describe_status(status) for status in await tower.database.read(body)]


def _offset(answer: Json) -> int | None:
    offset = answer.get("offset")
    return offset if isinstance(offset, int) else None


def describe_status(status: Status) -> models.Status:
    """A status for a program."""
    return models.Status(
        process=status.process,
        description=describe_status_of(status),
        reason=status.reason,
        exit_status=status.exit_status,
        activity=status.activity,
        waiting_for=status.waiting_for,
        evidence=status.evidence,
        confidence=status.confidence,
        since_us=status.since_us,
        until_us=status.until_us,
    )


def describe_status_of(status: Status) -> str:
    """A status in a few words for people: what its agent does, where that is known."""
    told = status.evidence.get("problem")
    problem = told if isinstance(told, str) else None
    return describe_state(
        status.process, status.reason, status.exit_status, status.activity, status.waiting_for, problem
    )


def _describe(tower: Tower, facts: PodFacts, status: Status, *, now: bool, mute: Mute | None) -> models.Pod:
    known = tower.pods.get(facts.id) if now else None
    grant = tower.keyboards.holder(facts.id) if now else None
    return models.Pod(
        id=facts.id,
        name=facts.name,
        session=facts.session,
        runner=facts.runner,
        reachable=facts.runner in tower.peers,
        argv=list(facts.argv),
        cwd=facts.cwd,
        cols=known.report.cols if known is not None else facts.cols,
        rows=known.report.rows if known is not None else facts.rows,
        agent=facts.agent,
        conversation=facts.conversation,
        repository=facts.repository,
        branch=facts.branch,
        worktree=facts.worktree,
        imported=facts.imported,
        created_us=facts.created_us,
        tape_bytes=tower.tape_end(PodId(facts.id)) if now else None,
        keyboard=grant.name if grant is not None else None,
        viewers=tower.viewers(facts.id) if now else 0,
        muted=mute is not None,
        muted_until_us=mute.ends_us if mute is not None else None,
        status=describe_status(status),
    )
