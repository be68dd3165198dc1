"""Go on with the work of a pod that another machine had: all that is left of it is its branch, if it was pushed."""

from __future__ import annotations

from collections.abc import Mapping

from scrubjay.agents.launch import begins_no_conversation, without_conversation
from scrubjay.agents.library import Library
from scrubjay.errors import NoSuchBase, NoSuchPod, ResumeRefused, StartFailed
from scrubjay.ids import is_remote, parse_pod_id, parse_repository, without_credentials
from scrubjay.pods.home import Home
from scrubjay.pods.launch import check_size
from scrubjay.pods.pod import Pod
from scrubjay.runner.findings import Finding, refuse
from scrubjay.runner.start import require_program, start
from scrubjay.runner.worktrees import Worktrees
from scrubjay.settings import Settings
from scrubjay.tape.redaction import is_veiled
from scrubjay.wire.messages import Resume, Start

_THERE = "resume it on the machine it ran on"
_SIZE = (120, 36)


def begin_here(
    request: Resume,
    *,
    home: Home,
    worktrees: Worktrees,
    settings: Settings,
    environ: Mapping[str, str],
    mcp_url: str | None,
) -> tuple[tuple[Finding, ...], Pod | None]:
    """A worktree of its branch and a new conversation, in the same session; what was found, and the new pod."""
    if request.session is None or request.name is None:
        raise NoSuchPod(request.pod)
    if request.repository is None or request.branch is None or not is_remote(parse_repository(request.repository)):
        had = "it had no worktree" if request.repository is None else "its repository is a folder of another machine"
        raise ResumeRefused(request.name, (f"this machine never had it, and {had}",), hint=_THERE)
    cols, rows = request.cols or _SIZE[0], request.rows or _SIZE[1]
    check_size(cols, rows)
    words, findings = _look(request, Library(settings.agents), environ)
    if request.check:
        return findings, None
    refuse(request.name, request.session, findings)
    wanted = Start(
        argv=words,
        agent=request.agent,
        prompt=request.prompt,
        name=request.name,
        session=request.session,
        cwd=request.cwd,
        repository=request.repository,
        branch=request.branch,
        base=request.branch,  # so that it has to be there
        environment=request.environment,
        cols=cols,
        rows=rows,
        pod=request.new,
        mcp_token=request.mcp_token,
    )
    try:
        pod = start(
            wanted,
            home=home,
            worktrees=worktrees,
            settings=settings,
            environ=environ,
            mcp_url=mcp_url,
            resumed_from=parse_pod_id(request.pod),
        )
    except NoSuchBase as error:
        where = without_credentials(request.repository)
        raise ResumeRefused(
            request.name,
            (f"this machine never had it, and its branch {request.branch} was not pushed to {where}",),
            hint=f"push the branch, or {_THERE}",
        ) from error
    return findings, pod


def _look(request: Resume, library: Library, environ: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """What to run, as far as a person gave it, and what was found."""
    words = request.arguments if request.arguments is not None else request.begun_with
    where = f"this machine never had it: it begins here with a new worktree of {request.branch}, as it was pushed"
    findings = [Finding("elsewhere", f"{where}, and with a new conversation")]
    if any(map(is_veiled, words)):
        text = "one of its arguments was a secret, which is not kept"
        findings.append(Finding("secret", text, stops=True, hint="give its arguments again after --"))
    if request.agent is not None:
        manifest = library.find(request.agent)
        if not begins_no_conversation(manifest, words):
            words = without_conversation(manifest, words)
        try:
            require_program(manifest, environ)
        except StartFailed as error:
            findings.append(Finding("agent", str(error), stops=True, hint=error.hint))
    return words, tuple(findings)
