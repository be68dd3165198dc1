"""Go on with a pod's work in a new pod: same name, session, worktree, branch, agent and conversation.

Everything is looked at first, and nothing is touched if something is in the way. Of many who resume the same session at
once one wins: in the moment its pod is started no other may be running.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scrubjay.agents.conversations import is_conversation_id
from scrubjay.agents.endpoint import McpEndpoint
from scrubjay.agents.launch import Launch, begins_no_conversation, launch_agent, resume_agent, without_conversation
from scrubjay.agents.library import Library
from scrubjay.agents.manifest import Manifest
from scrubjay.errors import BadInput, KeeperRefused, PodNotRunning, ScrubjayError
from scrubjay.ids import PodId, PodName, new_pod_id, parse_pod_id, parse_pod_name
from scrubjay.keeper.environment import person_environment
from scrubjay.keeper.processes import of_pod
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, check_size, start_pod
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.pods.stopping import is_ending, stop_pod, wait_for_end
from scrubjay.runner.findings import Finding, refuse
from scrubjay.runner.resume_checks import (
    NEW_CONVERSATION,
    Intent,
    look_at_conversation,
    look_at_holders,
    look_at_place,
    look_at_program,
)
from scrubjay.runner.resume_elsewhere import begin_here
from scrubjay.runner.start import check_environment, check_prompt, endpoint_of, place_for
from scrubjay.runner.worktrees import Worktrees
from scrubjay.settings import Settings
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Resume

_GRACE_S = 5.0  # between TERM and KILL, for a pod whose session is taken over
_ENDING_S = 15.0  # for a pod whose agent is gone to end what that has left
_AGAIN_S = 0.5
_LEFT_S = 3.0  # for the same where its keeper was killed
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Resumed:
    """What became of it."""

    findings: tuple[Finding, ...]
    pod: Pod | None = None  #: None if it was only looked

    def describe(self) -> Json:
        """All of it for a program."""
        told: Json = {"findings": [finding.describe() for finding in self.findings]}
        if (pod := self.pod) is None:
            return told
        return {
            "id": pod.id,
            "name": pod.name,
            "session": pod.session,
            "conversation": pod.conversation,
            "branch": pod.branch,
            "resumed_from": pod.resumed_from,
        } | told


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to run; nothing if that cannot be told, which one of the findings says."""

    launch: Launch | None
    manifest: Manifest | None = None  #: of an agent that is to converse
    conversation: str | None = None  #: the one it goes on with
    words: tuple[str, ...] = ()  #: those that a person gave
    findings: tuple[Finding, ...] = ()


def resume(
    request: Resume,
    *,
    home: Home,
    worktrees: Worktrees,
    settings: Settings,
    environ: Mapping[str, str],
    mcp_url: str | None = None,
    on_found: Callable[[Sequence[Finding]], None] = lambda _: None,
) -> Resumed:
    """Go on with it and return when its agent runs; a ScrubjayError says why not, and then everything is as before.

    Except that a pod whose session is taken over has ended. ``mcp_url`` is where the request's token is good.
    ``on_found`` is told what was found before anything is done.
    """
    environ = person_environment(environ) | check_environment(request.environment)
    check_prompt(request.prompt)
    known = read_pod(home.folder_of(parse_pod_id(request.pod)))
    if known is None:
        return Resumed(
            *begin_here(request, home=home, worktrees=worktrees, settings=settings, environ=environ, mcp_url=mcp_url)
        )
    old = home.of_session(known.session)[-1]
    cols, rows = request.cols or old.size[0], request.rows or old.size[1]
    check_size(cols, rows)
    new = parse_pod_id(request.new) if request.new is not None else new_pod_id()
    name = parse_pod_name(request.name) if request.name is not None else old.name
    _let_end(old)
    mcp = endpoint_of(request, settings, mcp_url)
    plan = _plan(request, old, Library(settings.agents), _Seat(home, new, environ, mcp))
    intent = Intent(
        old=old,
        manifest=plan.manifest,
        words=plan.words,
        conversation=plan.conversation,
        name=name,
        takeover=request.takeover,
        environ=environ,
    )
    place, tree = look_at_place(intent, worktrees)
    findings = (
        *look_at_holders(intent, home),
        *place,
        *look_at_program(intent),
        *plan.findings,
        *look_at_conversation(intent, home),
    )
    on_found(findings)
    if request.check:
        return Resumed(findings)
    refuse(old.name, old.session, findings)
    assert plan.launch is not None
    for rival in home.of_session(old.session) if request.takeover else ():
        with suppress(PodNotRunning):
            stop_pod(rival, author=request.author, grace_s=_GRACE_S)
    pod = start_pod(
        home,
        _start_request(
            old, plan.launch, name, new, mcp, cols=cols, rows=rows, given=tuple(sorted(request.environment))
        ),
        settings,
        environ,
    )
    if tree is not None:
        with suppress(OSError, ScrubjayError):  # the pod runs; it is only kept less well from others' git
            worktrees.hold(tree)
    return Resumed(findings, pod)


def _start_request(
    old: Pod,
    launch: Launch,
    name: PodName,
    new: PodId,
    mcp: McpEndpoint | None,
    *,
    cols: int,
    rows: int,
    given: tuple[str, ...],
) -> StartRequest:
    return StartRequest(
        argv=launch.argv,
        cwd=Path(old.cwd),
        cols=cols,
        rows=rows,
        name=name,
        session=old.session,
        id=new,
        agent=launch.agent,
        arguments=launch.arguments,
        environment=launch.environment | (mcp.environment if mcp is not None else {}),
        files=launch.files,
        conversation=launch.conversation,
        type_when_ready=launch.type_when_ready,
        repository=old.repository,
        branch=old.branch,
        worktree=old.worktree,
        resumed_from=old.id,
        given=given,
    )


def _let_end(pod: Pod) -> None:
    """Wait, though not for long, for a pod that is about to be gone: its agent was killed a moment ago."""
    if pod.alive:
        deadline = time.monotonic() + _ENDING_S
        # Asked again and again: a keeper that did not answer may only have been slow, and its pod goes on.
        while pod.alive and is_ending(pod) and time.monotonic() < deadline:
            with suppress(KeeperRefused):
                wait_for_end(pod, timeout_s=_AGAIN_S)
        return  # if it goes on, it has the session, and that is said
    deadline = time.monotonic() + _LEFT_S
    while not pod.has_ended and of_pod(pod.id) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class _Seat:
    """The pod that is about to be started, as far as its agent's files and variables are about it."""

    home: Home
    pod: PodId
    environ: Mapping[str, str]
    mcp: McpEndpoint | None


def _plan(request: Resume, old: Pod, library: Library, seat: _Seat) -> _Plan:
    if not old.argv:
        return _Plan(None)  # it was imported
    arguments = request.arguments if request.arguments is not None else old.arguments
    if old.agent is None or arguments is None:
        return _plan_command(request, old)
    try:
        manifest = library.find(old.agent)
    except BadInput as error:
        return _Plan(None, findings=(Finding("agent", str(error), stops=True, hint=error.hint),))
    if begins_no_conversation(manifest, arguments):
        return _plan_command(request, old)
    return _plan_agent(request, old, manifest, arguments, seat)


def _plan_command(request: Resume, old: Pod) -> _Plan:
    """The same command once more."""
    if request.prompt is not None:
        raise BadInput(
            f"nobody knows how to give {old.argv[0]!r} a prompt", hint="send it with 'scrubjay send' when it runs"
        )
    argv = old.argv if request.arguments is None else (old.argv[0], *request.arguments)
    text = f"{old.argv[0]} has no conversation to go on with: the same command is run again"
    found = Finding("no_conversation", text)
    return _Plan(Launch(argv, old.agent, argv[1:] if old.agent is not None else None), words=argv, findings=(found,))


def _plan_agent(request: Resume, old: Pod, manifest: Manifest, arguments: tuple[str, ...], seat: _Seat) -> _Plan:
    place = place_for(manifest, seat.home, seat.pod, seat.environ, seat.mcp)
    conversation = request.conversation or old.conversation
    if request.new_conversation or manifest.resume is None:
        launch = launch_agent(
            manifest,
            place,
            arguments=without_conversation(manifest, arguments),
            prompt=request.prompt,
            new_conversation=str(uuid.uuid4()),
        )
        found = _say_begun(manifest, conversation)
        return _Plan(_with_program(launch, old), manifest, words=arguments, findings=(found,))
    by_id = any("{conversation}" in word for word in manifest.resume.arguments)
    if by_id and (conversation is None or not is_conversation_id(conversation)):
        text = f"which conversation {manifest.title} had is not known"
        found = Finding("conversation", text, stops=True, hint=NEW_CONVERSATION)
        return _Plan(None, manifest, words=arguments, findings=(found,))
    launch = resume_agent(manifest, place, arguments=arguments, prompt=request.prompt, conversation=conversation or "")
    launch = replace(launch, conversation=conversation)
    return _Plan(_with_program(launch, old), manifest, conversation, words=arguments)


def _say_begun(manifest: Manifest, before: str | None) -> Finding:
    if manifest.resume is None:
        return Finding("no_conversation", f"{manifest.title} cannot go on with a conversation, and begins a new one")
    text = f"{manifest.title} begins a new conversation"
    return Finding("new_conversation", text if before is None else f"{text}; {before} stays as it was")


def _with_program(launch: Launch, old: Pod) -> Launch:
    """The very program that a person started, if they gave its path."""
    return replace(launch, argv=(old.argv[0], *launch.argv[1:])) if "/" in old.argv[0] else launch
