"""Start a pod: its folder, its keeper, its agent; or nothing at all."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import scrubjay
from scrubjay.clock import SystemClock
from scrubjay.errors import BadSize, StartFailed
from scrubjay.ids import PodId, PodName, SessionId, new_pod_id, new_session_id, suggest_pod_name
from scrubjay.keeper.environment import ARGV_VARIABLE, person_environment
from scrubjay.keeper.protocol import SIZE_MAX, SIZE_MIN
from scrubjay.keeper.secrets import find_secrets, hide_in
from scrubjay.pods.home import Home
from scrubjay.pods.pod import ForkedFrom, Pod, read_pod, write_facts
from scrubjay.settings import Settings

_KEEPER = Path(scrubjay.__file__).parent / "keeper" / "__main__.py"
_READY_TIMEOUT_S = 15.0
_END_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to run and how."""

    argv: tuple[str, ...]
    cwd: Path
    cols: int
    rows: int
    name: PodName | None = None  #: None names it after its command
    session: SessionId | None = None  #: None begins a new session
    id: PodId | None = None  #: None gives it one
    agent: str | None = None  #: which agent it is, if it is one that is known
    arguments: tuple[str, ...] | None = None  #: those of its command that a person gave, where we have added others
    environment: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  #: variables for this agent alone, not for pods that it starts
    files: Mapping[str, str] = field(default_factory=dict[str, str])  #: for its folder ``agent``, by their paths there
    conversation: str | None = None  #: the id of the agent's conversation, where it is chosen
    type_when_ready: str | None = None  #: what is to be typed once it waits for its first prompt
    repository: str | None = None  #: what its worktree was made of
    branch: str | None = None
    worktree: str | None = None  #: the worktree's name
    resumed_from: PodId | None = None  #: the pod whose work it goes on with; then no other may have the session
    given: tuple[str, ...] = ()  #: names of variables that a person gave for it
    forked_from: ForkedFrom | None = None


def check_size(cols: int, rows: int) -> None:
    """BadSize if a terminal cannot have that size."""
    if not (SIZE_MIN[0] <= cols <= SIZE_MAX[0] and SIZE_MIN[1] <= rows <= SIZE_MAX[1]):
        raise BadSize(cols, rows, smallest=SIZE_MIN, largest=SIZE_MAX)


def start_pod(home: Home, request: StartRequest, settings: Settings, environ: Mapping[str, str]) -> Pod:
    """Start a pod and return when its agent runs. StartFailed and its kin leave nothing behind."""
    check_size(request.cols, request.rows)
    environ = person_environment(environ) | dict(request.environment)
    _check_command(request, environ)
    with home.changing():
        if request.resumed_from is not None and request.session is not None:
            home.require_unheld(request.session, request.conversation)
        if request.name is not None:
            home.require_free(request.name)
            name = request.name
        else:
            name = suggest_pod_name(Path(request.argv[0]).name, {str(taken) for taken in home.living_names()})
        secrets = find_secrets(environ, settings.mask)
        argv = [hide_in(secrets, word) for word in request.argv]
        environ = {name: value for name, value in environ.items() if name != ARGV_VARIABLE}
        if argv != list(request.argv):
            environ[ARGV_VARIABLE] = json.dumps(request.argv)
        if request.type_when_ready is not None and hide_in(secrets, request.type_when_ready) != request.type_when_ready:
            raise StartFailed(
                "the prompt holds a secret, and would be kept", hint="send it: scrubjay send POD … --enter"
            )
        pod_id = request.id or new_pod_id()
        folder = home.make_folder(pod_id)
        try:
            _write_files(folder / "agent", request.files)
            write_facts(
                folder / "pod.json",
                id=pod_id,
                name=name,
                session=request.session or new_session_id(),
                argv=argv,
                cwd=str(request.cwd),
                cols=request.cols,
                rows=request.rows,
                term=settings.term,
                created=SystemClock().wall_us(),
                host=socket.gethostname(),
                agent=request.agent,
                arguments=None if request.arguments is None else [hide_in(secrets, word) for word in request.arguments],
                conversation=request.conversation,
                type_when_ready=request.type_when_ready,
                set=sorted(request.environment) or None,
                repository=request.repository,
                branch=request.branch,
                worktree=request.worktree,
                resumed_from=request.resumed_from,
                given=list(request.given) or None,
                forked_from=asdict(request.forked_from) if request.forked_from is not None else None,
                scrubjay=scrubjay.__version__,
                sync_ms=settings.sync_ms,
                when_full=settings.when_full,
                mask=list(settings.mask),  # names alone: what they are is in the agent's environment
                # -P keeps a module in the agent's folder from being imported in place of ours.
                seal=[sys.executable, "-P", "-m", "scrubjay", "--data", str(home.path), "seal", pod_id],
            )
            _start_keeper(folder, environ)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    pod = read_pod(folder)
    assert pod is not None
    return pod


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        for above in reversed(path.relative_to(folder.parent).parents[:-1]):
            (folder.parent / above).mkdir(mode=0o700, exist_ok=True)  # one by one: parents=True would make them public
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


def _check_command(request: StartRequest, environ: Mapping[str, str]) -> None:
    if not request.cwd.is_dir():
        raise StartFailed(f"there is no directory {request.cwd}", hint="give an existing one with --cwd")
    check_command(request.argv, request.cwd, environ)


def check_command(argv: tuple[str, ...], cwd: Path, environ: Mapping[str, str]) -> None:
    """StartFailed if there is no such command; one with a relative path is looked for in ``cwd``."""
    command = argv[0]
    if "\0" in "".join(argv):
        raise StartFailed("a command cannot contain a NUL byte")
    where = str(cwd / command) if "/" in command else command
    if shutil.which(where, path=environ.get("PATH", os.defpath)) is None:
        raise StartFailed(
            f"there is no command {command!r}",
            hint="check the spelling, or give its path; a shell line needs: sh -c '…'",
        )


def _start_keeper(folder: Path, environ: Mapping[str, str]) -> None:
    lock = os.open(folder / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ready, tell = os.pipe()
    try:
        # Taken here and inherited, so that there is no moment in which the pod looks dead.
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as log:
            starter = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(folder), str(tell), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(tell, lock),
                start_new_session=True,
                env=dict(environ),
            )
        os.close(tell)
        tell = -1
        failure = _wait_until_ready(ready)
        if failure is not None:
            with suppress(ProcessLookupError):
                os.killpg(starter.pid, signal.SIGTERM)
        starter.wait()  # it has left the keeper to itself by now
        if failure is not None:
            _wait_for_end(ready)
            raise StartFailed(failure, hint=_last_words(folder))
    finally:
        for fd in (lock, ready, tell):
            if fd >= 0:
                os.close(fd)


def _last_words(folder: Path) -> str | None:
    """The last line a keeper has left in its log; the folder is about to go."""
    lines = (folder / "keeper.log").read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else None


def _wait_for_end(ready: int) -> None:
    """Return when a keeper that failed has let go of everything, or will not."""
    while select.select([ready], [], [], _END_TIMEOUT_S)[0] and os.read(ready, 65536):
        continue


def _wait_until_ready(ready: int) -> str | None:
    """None when the agent runs, else why it does not."""
    if not select.select([ready], [], [], _READY_TIMEOUT_S)[0]:
        return f"the keeper was not ready after {_READY_TIMEOUT_S:g} s"
    told = os.read(ready, 65536)
    if not told:
        return "the keeper died while starting"
    answer = cast(dict[str, object], json.loads(told))
    error = answer.get("error")
    return None if error is None else f"cannot start {error}"
