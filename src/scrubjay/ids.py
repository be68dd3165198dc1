"""Ids and names, made and parsed in one place.

An id is 26 lower-case base32 characters: 130 random bits, so ids need no counter, say
nothing, and a few leading characters are enough to tell a person's pods apart.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import NewType

from scrubjay.errors import BadBase, BadBranch, BadId, BadName, BadRepository

PodId = NewType("PodId", str)
"""One run of one agent; also the id of its tape."""
SessionId = NewType("SessionId", str)
"""The thread of work that pods come and go under."""
RunnerId = NewType("RunnerId", str)
"""One machine's runner; the same after every restart."""
WireSessionId = NewType("WireSessionId", str)
"""The connection of an older MCP client, as it names it in ``Mcp-Session-Id``."""
PodName = NewType("PodName", str)
"""What people call a pod; one running pod has it at a time."""
BranchName = NewType("BranchName", str)
"""A branch of a repository, without ``refs/heads/``."""
BaseName = NewType("BaseName", str)
"""What a branch starts from: a branch, a tag, or digits of a commit."""
RepositoryAddress = NewType("RepositoryAddress", str)
"""An absolute path, a URL or ``user@host:path``, written in one way."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_ID_LENGTH = 26
_ID = re.compile(f"[{_ALPHABET}]{{{_ID_LENGTH}}}")
# A leading letter or digit keeps a name from being read as an option or a path.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")

# Less than git allows: nothing here is an option, a path, an expression or a pattern to git or a shell.
_BRANCH_PART = r"[\w@#+=][\w@#+=.,-]*"
_BRANCH = re.compile(rf"{_BRANCH_PART}(?:/{_BRANCH_PART})*")
_BRANCH_MAX_BYTES = 200  # git makes a file of each part, with .lock behind it
_RESERVED_BRANCH = re.compile(r"@|[A-Z_]*HEAD|[0-9a-f]{40}|[0-9a-f]{64}|refs/.*")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")

_ADDRESS_MAX = 2048
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])"
_URL = re.compile(
    rf"(?P<scheme>https?|ssh|git)://(?:(?P<user>[A-Za-z0-9][A-Za-z0-9._+-]*)@)?(?P<host>{_HOST})(?P<port>:[0-9]{{1,5}})?"
    r"(?P<path>(?:/[A-Za-z0-9._~%+@=,-]+)+)/?",
    re.IGNORECASE,
)
_FILE_URL = re.compile(r"file://(?P<path>(?:/[A-Za-z0-9._~%+@=,-]+)+)/?", re.IGNORECASE)
_SCP = re.compile(
    r"(?P<user>[A-Za-z0-9][A-Za-z0-9._-]*)@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[A-Za-z0-9._~/][A-Za-z0-9._~+@=,/-]*)"
)
_DEFAULT_PORT = {"https": ":443", "http": ":80", "ssh": ":22", "git": ":9418"}
# Dots, slashes, backslashes and controls have no reason to be written so, other than to get past a check.
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%(?:2[eEfF]|5[cC]|7[fF]|[01][0-9A-Fa-f])")
# By what some begin with, or, as of most nothing is known, by being as long as no person's name is and having digits.
_TOKEN_USER = re.compile(
    r"gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-|(?=.*[0-9])(?=.*[a-z])[a-z0-9_-]{20,}$", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]*(?:@[^/\s@]*)*@")


def _new_id() -> str:
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(_ID_LENGTH))  # 256 is 8 times 32


def new_pod_id() -> PodId:
    """Make an id no other pod has."""
    return PodId(_new_id())


def new_session_id() -> SessionId:
    """Make an id no other session has and nobody can guess."""
    return SessionId(_new_id())


def new_runner_id() -> RunnerId:
    """Make an id no other runner has."""
    return RunnerId(_new_id())


def new_wire_session_id() -> WireSessionId:
    """Make an id no other wire session has and nobody can guess."""
    return WireSessionId(_new_id())


def new_record_id() -> str:
    """Make an id for anything else that the catalog keeps: nobody can guess it."""
    return _new_id()


def last_id(beginning: str) -> str:
    """What no id that begins so comes after, in whichever order a database has letters and digits."""
    return beginning + "z" * _ID_LENGTH


def parse_pod_id(raw: str) -> PodId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("pod", raw)
    return PodId(raw)


def parse_session_id(raw: str) -> SessionId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("session", raw)
    return SessionId(raw)


def parse_runner_id(raw: str) -> RunnerId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("runner", raw)
    return RunnerId(raw)


def parse_wire_session_id(raw: str) -> WireSessionId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("wire session", raw)
    return WireSessionId(raw)


def parse_pod_name(raw: str) -> PodName:
    """Accept a lower-case name of at most 63 characters that is safe as a file and branch name."""
    if not _NAME.fullmatch(raw) or ".." in raw or raw.endswith((".", ".lock")):
        raise BadName(raw)
    return PodName(raw)


def parse_branch_name(raw: str) -> BranchName:
    """Accept what is a branch to git and nothing else to anybody; anything else is BadBranch."""
    if not _is_branch(raw):
        raise BadBranch(raw)
    return BranchName(raw)


def parse_base(raw: str) -> BaseName:
    """Accept the name of a branch or tag, or 7 to 64 digits of a commit; anything else is BadBase."""
    if not _COMMIT.fullmatch(raw) and not _is_branch(raw):
        raise BadBase(raw)
    return BaseName(raw)


def _is_branch(raw: str) -> bool:
    return (
        len(raw) <= _BRANCH_MAX_BYTES
        and _BRANCH.fullmatch(raw) is not None
        and len(raw.encode()) <= _BRANCH_MAX_BYTES
        and ".." not in raw
        and not raw.endswith(".")
        and not any(part.endswith(".lock") for part in raw.split("/"))
        and _RESERVED_BRANCH.fullmatch(raw) is None
        # Characters that look like others (fullwidth letters, ligatures) are written in their plain form.
        and unicodedata.normalize("NFKC", raw) == raw
    )


def parse_repository(raw: str) -> RepositoryAddress:
    """Accept an absolute path, a URL or ``user@host:path`` without a password; anything else is BadRepository."""
    if raw.startswith("/"):
        return _parse_local_repository(raw)
    shown = without_credentials(raw)
    if len(raw) > _ADDRESS_MAX:
        raise BadRepository(shown, f"it is longer than {_ADDRESS_MAX} characters")
    if (given := _CREDENTIALS.search(raw)) is not None and ":" in given[0]:
        raise BadRepository(shown, "it has a password in it", hint="leave it out: git asks its credential helper")
    match = _URL.fullmatch(raw) or _FILE_URL.fullmatch(raw) or _SCP.fullmatch(raw)
    if match is None:
        raise BadRepository(shown, "it is neither an absolute path nor a URL that git may follow")
    path = match["path"].rstrip("/")
    if _BAD_ESCAPE.search(path) or ".." in path.split("/") or not path:
        raise BadRepository(shown, "its path is not a plain one")
    if match.re is _FILE_URL:
        return RepositoryAddress(f"file://{path}")
    user, host = match["user"], match["host"].lower()
    if match.re is _SCP:
        return RepositoryAddress(f"{user}@{host}:{path}")
    scheme, port = match["scheme"].lower(), match["port"] or ""
    if user is not None and scheme != "ssh" and _TOKEN_USER.match(user):
        raise BadRepository(
            shown, "it has a token in it", hint="leave it out: git asks its credential helper; or use SSH"
        )
    if port == _DEFAULT_PORT[scheme]:
        port = ""
    return RepositoryAddress(f"{scheme}://{user + '@' if user is not None else ''}{host}{port}{path}")


def _parse_local_repository(raw: str) -> RepositoryAddress:
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    if not raw.isprintable():  # bytes that are not UTF-8 are not printable either
        raise BadRepository(raw, "its path has characters that cannot be shown", hint="give a symbolic link to it")
    if len(raw.encode()) > _ADDRESS_MAX:
        raise BadRepository(raw, f"its path is longer than {_ADDRESS_MAX} bytes")
    if ".." in parts:
        raise BadRepository(raw, "its path has '..' in it", hint="give the path without")
    if ".git" in parts:
        raise BadRepository(raw, "it is inside a .git folder", hint="give the folder that .git is in")
    return RepositoryAddress("/" + "/".join(parts))


def is_remote(repository: RepositoryAddress) -> bool:
    """Whether a repository has to be cloned first; ``file://`` asks for that too."""
    return not repository.startswith("/")


def without_credentials(text: str) -> str:
    """The text without the users and passwords of URLs in it."""
    return _CREDENTIALS.sub("", text)


def suggest_pod_name(command: str, taken: set[str]) -> PodName:
    """Name a pod after its command: ``claude``, then ``claude-2``, ``claude-3``."""
    stem = _NOT_IN_NAMES.sub("-", command.lower()).strip("-._") or "pod"
    stem = stem.replace("..", "-")[:48].strip("-._").removesuffix(".lock") or "pod"
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return parse_pod_name(name)
