"""Run git so that neither a name, a repository nor its server can make it do more than was asked.

No shell; no hooks, file system monitors or background collection of a repository while it is us who work in it (what a
person or an agent does there runs them as ever); no helper programs for odd protocols; nobody is asked for a password;
nothing of a surrounding git's environment; an end to every wait. Filters such as git-lfs do run: without them the files
would be the wrong ones, and only a person's own configuration can define one.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scrubjay.errors import GitFailed, GitMissing
from scrubjay.ids import without_credentials

Progress = Callable[[str], None]

LOCAL_S = 60.0
FILES_S = 900.0  # a checkout of a large repository, with filters that download
NETWORK_S = 3600.0
_GENTLE = 15  # of 19: work that nobody waits for
_END_S = 2.0  # git removes its lock files when it is asked to end
_POLL_S = 0.1
_HALF_WRITTEN_S = 2.0  # for another git to write what it has begun; one that was killed in between never does
_AGAIN_S = 0.05
_PROGRESS_EVERY_S = 0.25
_STDERR_MAX_BYTES = 64 << 10
_WHY_MAX = 300  # characters of it in a message
_OUTPUT_MAX_BYTES = 64 << 20

_OVERRIDES = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.pager=cat",
    "color.ui=false",
    "advice.detachedHead=false",
    "branch.autoSetupMerge=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.ext.allow=never",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "log.showSignature=false",
)
_PROTOCOLS = "file:git:http:https:ssh"
# Configuration and transport a person has chosen; every other GIT_ variable belongs to some other git command.
_KEPT = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH"}
    | {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"}
)
_KEPT_FAMILIES = ("GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_")

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f]"
)
_PROGRESS = re.compile(r"(?:remote: )?[A-Z][A-Za-z ]+: +(?:[0-9]+% )?\(?[0-9]+")
_WHY = re.compile(r"^(?:fatal|error|ssh|remote: error|remote: fatal): *(.+)$|^(.*Permission denied.*)$", re.MULTILINE)
_HALF_WRITTEN = re.compile(r"worktrees/[^ ]+/(?:commondir|gitdir|HEAD)")  # a worktree that another git is adding
_HINTS = (
    (r"Host key verification failed", "connect to that host once with ssh, to accept its key"),
    (r"Permission denied \(|could not read (?:Username|Password)|Authentication failed|terminal prompts disabled",
     "give git access first: an ssh key in the agent, or a credential helper; nobody can be asked here"),
    (r"dubious ownership", "if you trust it: git config --global --add safe.directory PATH"),
    (r"No space left on device|Disk quota exceeded", "free some space and try again; nothing is left behind"),
    (r"Could not resolve host|unable to access|Connection (?:refused|timed out)|Could not read from remote",
     "check the address and the network"),
    (r"(?i)repository not found|not exported|does not appear to be a git repository",
     "check the address, and that you may read it"),
    (r"exists; cannot create", "no branch can be called like a folder of others: give another branch"),
    (r"\.lock': File exists", "another git may be at work there; if not, delete that file"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ended:
    """How a git command ended."""

    status: int
    stdout: bytes
    stderr: str  #: without controls, progress and credentials
    cut: bool = False  #: it had more to say than was asked for


class Git:
    """The git program of this machine."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = _safe_environment(environ)
        self._path = environ.get("PATH", os.defpath)
        self._stopping = threading.Event()

    @property
    def stopped(self) -> bool:
        """Whether no more is to be done."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End what runs, in whichever thread, and begin nothing more."""
        self._stopping.set()

    def run(
        self,
        *words: str,
        cwd: Path,
        git_dir: Path | None = None,
        index: Path | None = None,
        settings: tuple[str, ...] = (),
        stdin: bytes = b"",
        timeout_s: float = LOCAL_S,
        progress: Progress | None = None,
        hold: tuple[int, ...] = (),
        limit_bytes: int = _OUTPUT_MAX_BYTES,
        check: bool = True,
        gently: bool = False,
    ) -> Ended:
        """Run git to its end; GitFailed if that is not a good one (unless not to ``check``) or takes too long.

        ``settings`` are ``name=value`` for this run alone. ``gently`` leaves the processor to whoever wants it.
        ``hold`` are locks that stay held for as long as git runs, even if we do not. An exception of ``progress``
        ends git, as ``stop`` does. Output beyond ``limit_bytes`` is not waited for. If git fails because another git is
        just adding a worktree, it is run again.
        """
        place = () if git_dir is None else (f"--git-dir={git_dir}",)
        settings = tuple(word for setting in (*_OVERRIDES, *settings) for word in ("-c", setting))
        environ = self._environ if index is None else self._environ | {"GIT_INDEX_FILE": str(index)}
        again_until = time.monotonic() + _HALF_WRITTEN_S
        while True:
            if self.stopped:
                raise _stopped(words[0])
            command = [self._program(), *place, "--no-pager", "--literal-pathspecs", *settings, *words]
            with _start(command, words[0], cwd=cwd, environ=environ, stdin=stdin, hold=hold, gently=gently) as process:
                try:
                    ended = _attend(process, words[0], timeout_s, progress, limit_bytes, self._stopping)
                finally:
                    _end(process)
            if ended.status == 0 or not _HALF_WRITTEN.search(ended.stderr) or time.monotonic() > again_until:
                break
            self._stopping.wait(_AGAIN_S)
        if check and ended.status != 0:
            raise failure(words[0], ended)
        return ended

    def _program(self) -> str:
        found = shutil.which("git", path=self._path)
        if found is None:
            raise GitMissing
        # Absolute, so that a folder named in PATH as "." is not the repository's.
        return os.path.abspath(found)


def _start(
    words: list[str],
    name: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    stdin: bytes,
    hold: tuple[int, ...],
    gently: bool,
) -> subprocess.Popen[bytes]:
    with _readable(stdin) as asked:
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=environ,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=hold,
                # No terminal to ask at, and a group of its own to end.
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            why = f"{printable(os.fsencode(error.filename))}: {error.strerror}"
            raise GitFailed(name, why, status=None, stderr="") from error
    if gently:
        with suppress(OSError):  # it has ended, or may not be made less important
            os.setpriority(os.PRIO_PROCESS, process.pid, _GENTLE)
    return process


@contextmanager
def _readable(data: bytes) -> Generator[IO[bytes]]:
    """A file to read the data from: with a pipe, who writes much would have to wait for who reads."""
    if not data:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _safe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_FAMILIES)
    }
    for name in ("LANGUAGE", "SSH_ASKPASS"):
        kept.pop(name, None)
    return kept | {
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_ASKPASS": "",
        "GIT_OPTIONAL_LOCKS": "0",  # looking must not get in the way of an agent's own git
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }


def _attend(
    process: subprocess.Popen[bytes],
    command: str,
    timeout_s: float,
    progress: Progress | None,
    limit_bytes: int,
    stopping: threading.Event,
) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + timeout_s
    stdout, stderr = bytearray(), _Words(progress)
    with selectors.DefaultSelector() as waiting:
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            # Looked at before reading: what it wrote last is read after it has ended.
            ended = process.poll() is not None
            ready = waiting.select(0 if ended else min(_POLL_S, max(0.0, deadline - time.monotonic())))
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    stderr.feed(data)
                else:
                    stdout += data
            if len(stdout) > limit_bytes:
                return Ended(0, bytes(stdout[:limit_bytes]), stderr.text(), cut=True)
            if ended and not ready:
                break  # something it left in the background has our pipe: an ssh that waits for the next connection
            if stopping.is_set():
                raise _stopped(command)
            if not ended and time.monotonic() >= deadline:
                raise GitFailed(command, f"it took longer than {timeout_s:g} s", status=None, stderr=stderr.text())
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        why = f"it took longer than {timeout_s:g} s"
        raise GitFailed(command, why, status=None, stderr=stderr.text()) from error
    return Ended(status, bytes(stdout), stderr.text())


def _stopped(command: str) -> GitFailed:
    return GitFailed(command, "whoever asked for it is being ended", status=None, stderr="")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of it running."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return


class _Words:
    """What git says while it works."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._told = 0.0
        self._said: list[str] = []
        self._size = 0
        self._line = b""

    def feed(self, data: bytes) -> None:
        *lines, self._line = re.split(rb"[\r\n]", self._line + data)
        self._line = self._line[-_STDERR_MAX_BYTES:]
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        text = clean(line.decode("utf-8", "replace")).strip()
        if not text:
            return
        if _PROGRESS.match(text):
            now = time.monotonic()
            if self._progress is not None and now - self._told >= _PROGRESS_EVERY_S:
                self._told = now
                self._progress(text)
        elif self._size < _STDERR_MAX_BYTES:
            self._said.append(text)
            self._size += len(text)

    def text(self) -> str:
        self._hear(self._line)
        self._line = b""
        return "\n".join(self._said)


def clean(text: str) -> str:
    """The text without control characters and without credentials in URLs."""
    return without_credentials(_CONTROL.sub("", text))


def printable(name: bytes) -> str:
    """A name of git's to be shown: what is not UTF-8 or cannot be printed is escaped."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def failure(command: str, ended: Ended) -> GitFailed:
    """Why git ended badly, in its words, and what to do about it."""
    whys = [first or second for first, second in _WHY.findall(ended.stderr)]
    last = ended.stderr.splitlines()[-1:] or [f"it ended with {ended.status}"]
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, ended.stderr)), None)
    why = "; ".join(whys or last)
    return GitFailed(
        command,
        why if len(why) <= _WHY_MAX else why[:_WHY_MAX] + "…",
        status=ended.status,
        stderr=ended.stderr,
        hint=hint,
    )
