"""The data directory, the settings file, and who else can read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from scrubjay.cli.context import human_bytes
from scrubjay.cli.doctor.finding import Finding, ok, problem, some, warning
from scrubjay.settings import Settings

_FREE_PROBLEM_BYTES = 64 << 20
_FREE_WARNING_BYTES = 1 << 30
_SOCKET_PATH_MAX_BYTES = 107
_OTHERS = 0o077
# Over these, locks and syncs are promises that another machine may not keep, and SQLite's shared memory does not work.
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs", "fuse.rclone")
_OF_MEMORY = ("tmpfs", "ramfs")
# What agents and git make there has the modes they give it; the directory above keeps others out.
_AGENTS_OWN = frozenset({"worktrees", "repositories"})


def check_settings_file(path: Path, settings: Settings) -> Finding:
    """Whether there is one, and whether it keeps its secrets."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ok("settings", f"none at {path}; defaults and environment hold")
    if mode & 0o044 and settings.notify_urls:
        return warning("settings", f"{path} can be read by others and may hold notification URLs", f"chmod 600 {path}")
    return ok("settings", str(path))


def check_directory(data: Path) -> list[Finding]:
    """The data directory itself: there, private, ours, on a disk with space that keeps what it says it keeps."""
    name = "data directory"
    try:
        facts = data.stat()
    except FileNotFoundError:
        return [ok(name, f"{data} is made when the first pod starts"), *_check_disk(_nearest_existing(data))]
    except OSError as error:
        return [problem(name, f"{data}: {error.strerror}", "give another directory with --data or SCRUBJAY_DATA")]
    if not stat.S_ISDIR(facts.st_mode):
        return [problem(name, f"{data} is not a directory", "give another with --data or SCRUBJAY_DATA")]
    if facts.st_uid != os.getuid():
        return [
            problem(
                name,
                f"{data} belongs to user {facts.st_uid}, not to you ({os.getuid()})",
                f"chown -R {os.getuid()} {data}, or give another with --data",
            )
        ]
    found: list[Finding] = []
    if facts.st_mode & _OTHERS:
        mode = stat.S_IMODE(facts.st_mode)
        found.append(problem(name, f"{data} has mode {mode:04o}: others can look in", "scrubjay doctor --fix"))
    elif not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        found.append(problem(name, f"{data} cannot be written", f"chmod 700 {data}; is its disk mounted read-only?"))
    else:
        found.append(ok(name, f"{data}, mode {stat.S_IMODE(facts.st_mode):04o}"))
    return [*found, *_check_disk(data), *_check_socket_paths(data)]


def check_permissions(data: Path, *, fix: bool) -> Finding:
    """Whether anybody else could read anything; with ``fix`` nobody can afterwards."""
    open_to_others = [path for path in _entries(data) if _is_open(path)]
    if fix:
        for path in open_to_others:
            with suppress(OSError):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
        fixed, open_to_others = len(open_to_others), [path for path in open_to_others if _is_open(path)]
        if fixed and not open_to_others:
            return ok("permissions", f"{fixed} files and directories made private")
    if not open_to_others:
        return ok("permissions", "everything is private to you")
    names = [str(path.relative_to(data)) if path != data else str(data) for path in open_to_others]
    return problem("permissions", f"others can read {some(names)}", "scrubjay doctor --fix")


def _entries(data: Path) -> Iterator[Path]:
    if data.is_dir():
        yield data
    for folder, folders, files in os.walk(data):
        if folder == str(data):
            folders[:] = [name for name in folders if name not in _AGENTS_OWN]
        for name in (*folders, *files):
            yield Path(folder, name)


def _is_open(path: Path) -> bool:
    try:
        facts = path.lstat()
    except OSError:  # gone meanwhile
        return False
    return not stat.S_ISLNK(facts.st_mode) and bool(facts.st_mode & _OTHERS)


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.exists())


def _check_disk(folder: Path) -> list[Finding]:
    usage = os.statvfs(folder)
    free = usage.f_bavail * usage.f_frsize
    kind = _file_system(folder)
    says = f"{human_bytes(free)} free on {kind}"
    if free < _FREE_PROBLEM_BYTES:
        space = problem("disk", says, "free some space; programs sleep while nothing can be recorded")
    elif free < _FREE_WARNING_BYTES:
        space = warning("disk", says, "free some space soon; programs sleep while nothing can be recorded")
    elif usage.f_favail == 0 and usage.f_files:
        space = problem("disk", f"{says}, but no more files can be made", "delete some files")
    else:
        space = ok("disk", says)
    if kind.startswith(_NETWORK):
        elsewhere = "give a directory on a disk of this machine with --data"
        return [space, warning("file system", f"{kind} is a network's: locks and syncs may not hold there", elsewhere)]
    if kind in _OF_MEMORY:
        elsewhere = "give a directory on a disk with --data to keep recordings"
        return [space, warning("file system", f"{kind} is memory: a reboot deletes everything", elsewhere)]
    return [space]


def _file_system(folder: Path) -> str:
    """The type of the file system a folder is on."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = "an unknown file system"
    with suppress(OSError):
        best = -1
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            fields = before.split()
            where = fields[4].encode().decode("unicode_escape", "replace")
            inside = str(folder.resolve()).startswith(where.rstrip("/") + "/") or str(folder.resolve()) == where
            # By device where that says it; some, like btrfs, show files with another device than the mount's.
            if (fields[2] == wanted or inside) and (score := len(where) + 10_000 * (fields[2] == wanted)) > best:
                best, found = score, after.split()[0]
    return found


def _check_socket_paths(data: Path) -> list[Finding]:
    longest = len(os.fsencode(data / "pods" / ("x" * 26) / "keeper.sock"))
    if longest <= _SOCKET_PATH_MAX_BYTES or os.path.isdir("/proc/self/fd"):
        return []  # longer ones are reached through /proc
    return [
        problem(
            "socket paths",
            f"{data} is too deep for sockets ({longest} bytes, {_SOCKET_PATH_MAX_BYTES} work) and there is no /proc",
            "give a directory with a shorter path with --data, or mount /proc",
        )
    ]
