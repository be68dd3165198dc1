"""Start a pod from a request: what to run, where, and in which worktree.

The runner does so for a server, and the command line by itself where there is none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import scrubjay
from scrubjay.agents.endpoint import McpEndpoint
from scrubjay.agents.launch import Launch, Place, launch_agent, launch_command
from scrubjay.agents.library import Library
from scrubjay.agents.manifest import Manifest
from scrubjay.errors import BadInput, ScrubjayError, StartFailed
from scrubjay.ids import PodId, PodName, new_pod_id, parse_pod_id, parse_pod_name, parse_session_id, suggest_pod_name
from scrubjay.keeper.environment import person_environment
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, check_command, check_size, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.runner.fork import plan_fork
from scrubjay.runner.worktrees import Worktree, Worktrees
from scrubjay.settings import Settings
from scrubjay.wire.messages import Resume, Start

_HOOK = Path(scrubjay.__file__).parent / "hook.py"


def start(
    request: Start,
    *,
    home: Home,
    worktrees: Worktrees,
    settings: Settings,
    environ: Mapping[str, str],
    mcp_url: str | None = None,
    resumed_from: PodId | None = None,
) -> Pod:
    """Start it and return when its agent runs; a ScrubjayError says why not, and then nothing is left behind.

    ``mcp_url`` is where the request's token is good, if it has one. ``resumed_from`` is a pod of another machine whose
    work it goes on with.
    """
    check_size(request.cols, request.rows)
    library, fork = Library(settings.agents), None
    if request.checkpoint is not None:
        fork = plan_fork(request, request.checkpoint, home=home, worktrees=worktrees, library=library)
        request = fork.request
    environ = person_environment(environ) | check_environment(request.environment)
    pod_id = parse_pod_id(request.pod) if request.pod is not None else new_pod_id()
    mcp = endpoint_of(request, settings, mcp_url)
    launch = _launch(request, library, home, pod_id, environ, mcp)
    if request.repository is None and (request.branch is not None or request.base is not None):
        raise BadInput("a branch was given, but no repository", hint="give --repo PATH or URL as well")
    if request.name is not None:
        name = parse_pod_name(request.name)
        home.require_free(name)
    elif request.repository is None:
        name = None  # given in the moment it is started, so that of many at once each has its own
    else:
        taken = {str(name) for name in home.living_names()} | {str(tree.name) for tree in worktrees.list()}
        name = suggest_pod_name(request.agent or Path(launch.argv[0]).name, taken)
    if request.repository is not None and ("/" not in launch.argv[0] or launch.argv[0].startswith("/")):
        check_command(launch.argv, Path("/"), environ)  # before there is a worktree to take back
    worktree = _make_worktree(worktrees, name, request, files=fork.files if fork is not None else None)
    try:
        return start_pod(
            home,
            StartRequest(
                argv=launch.argv,
                cwd=_cwd(request, worktree),
                cols=request.cols,
                rows=request.rows,
                name=name,
                session=parse_session_id(request.session) if request.session is not None else None,
                id=pod_id,
                agent=launch.agent,
                arguments=launch.arguments,
                environment=launch.environment | (mcp.environment if mcp is not None else {}),
                files=launch.files,
                conversation=launch.conversation,
                type_when_ready=launch.type_when_ready,
                repository=worktree.repository if worktree is not None else None,
                branch=worktree.branch if worktree is not None else None,
                worktree=worktree.name if worktree is not None else None,
                resumed_from=resumed_from,
                given=tuple(sorted(request.environment)),
                forked_from=fork.origin if fork is not None else None,
            ),
            settings,
            environ,
        )
    except BaseException as failed:
        if worktree is not None:
            _take_back(worktrees, worktree, failed)
        raise


def _launch(
    request: Start, library: Library, home: Home, pod: PodId, environ: Mapping[str, str], mcp: McpEndpoint | None
) -> Launch:
    """What to run."""
    prompt = check_prompt(request.prompt)
    if request.agent is not None:
        manifest = library.find(request.agent)
        require_program(manifest, environ)
        place = place_for(manifest, home, pod, environ, mcp)
        return launch_agent(manifest, place, arguments=request.argv, prompt=prompt, new_conversation=str(uuid.uuid4()))
    if not request.argv:
        raise BadInput("there is nothing to run", hint="give a command, or an agent's name")
    if prompt is not None:
        raise BadInput(
            f"nobody knows how to give {request.argv[0]!r} a prompt",
            hint="give --agent NAME instead of a command, or send the prompt with 'scrubjay send'",
        )
    recognised = library.recognise(request.argv[0])
    if recognised is None:
        return Launch(request.argv)
    manifest = library.find(recognised)
    return launch_command(manifest, place_for(manifest, home, pod, environ, mcp), request.argv)


def endpoint_of(request: Start | Resume, settings: Settings, mcp_url: str | None) -> McpEndpoint | None:
    """Where the agent finds the tools of the server, if it is to have them."""
    if not settings.mcp or mcp_url is None or request.mcp_token is None:
        return None
    return McpEndpoint(mcp_url, request.mcp_token)


def place_for(manifest: Manifest, home: Home, pod: PodId, environ: Mapping[str, str], mcp: McpEndpoint | None) -> Place:
    """What is put in for placeholders of an agent's manifest in a pod."""
    return Place(folder=str(home.folder_of(pod) / "agent"), hook=hook_command(manifest.name), environ=environ, mcp=mcp)


def hook_command(agent: str) -> str:
    """A shell line by which an agent reports; more arguments may follow it.

    It says nothing and succeeds even where Scrubjay was moved or removed while the agent runs. It is the same in every
    pod, which the hook finds by its environment, for agents ask about hooks that they do not know.
    """
    guard = '"$@" 2>/dev/null || :'
    return shlex.join(["sh", "-c", guard, "scrubjay", sys.executable, "-I", "-S", str(_HOOK), agent])


def check_prompt(prompt: str | None) -> str | None:
    """A prompt that says something; BadInput if it says nothing."""
    if prompt is not None and (not prompt.strip() or "\0" in prompt):
        raise BadInput("the prompt says nothing", hint="give --prompt some text, or leave it out")
    return prompt


def require_program(manifest: Manifest, environ: Mapping[str, str]) -> None:
    """StartFailed if an agent is not installed."""
    if shutil.which(manifest.program, path=environ.get("PATH", os.defpath)) is None:
        hint = f"install it with: {manifest.install}" if manifest.install is not None else f"see {manifest.source}"
        raise StartFailed(f"{manifest.title} is not here: there is no {manifest.program!r} on the PATH", hint=hint)


def check_environment(environment: dict[str, str]) -> dict[str, str]:
    """Variables that can be set; BadInput names one that cannot."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise BadInput(f"{name!r} cannot be an environment variable", hint="give NAME=VALUE")
    return environment


def _make_worktree(worktrees: Worktrees, name: PodName | None, request: Start, *, files: str | None) -> Worktree | None:
    if request.repository is None or name is None:
        return None
    return worktrees.create(name, repository=request.repository, branch=request.branch, base=request.base, files=files)


def _take_back(worktrees: Worktrees, worktree: Worktree, failed: BaseException) -> None:
    try:
        worktrees.remove(worktree, force=True)
    except (OSError, ScrubjayError) as error:
        # Why the pod could not be started matters more, and is raised.
        if isinstance(failed, ScrubjayError):
            left = f"worktree {worktree.name} is left behind: {error}"
            failed.hint = left if failed.hint is None else f"{failed.hint}; {left}"


def _cwd(request: Start, worktree: Worktree | None) -> Path:
    root = worktree.path if worktree is not None else Path.home()
    if request.cwd is None:
        return root
    cwd = root / request.cwd
    if worktree is not None and not cwd.resolve().is_relative_to(worktree.path.resolve()):
        raise BadInput(f"{request.cwd!r} is not inside the worktree", hint="give a folder of the repository")
    return cwd
