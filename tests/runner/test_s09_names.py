"""Names from outside cannot leave the data directory, become an option of git, or be run by a shell."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scrubjay.errors import BadBase, BadBranch, BadId, BadInput, BadName, BadRepository, HomeUnusable, WorktreeMissing
from scrubjay.ids import (
    PodName,
    parse_base,
    parse_branch_name,
    parse_pod_id,
    parse_pod_name,
    parse_repository,
    parse_session_id,
)
from tests.support.checkouts import Checkouts

_STEMS = (
    "..", "../x", "../../x", "a/../../b", "a/..", "./../x", "x/../../../etc/passwd", "....//x", "..;/x", ".", "./x",
    "",
    "%2e%2e/", "%2e%2e%2fx", "..%2fx", "%252e%252e/x", "..%c0%afx", "..%00", "%2e", "a%2f..%2fb", "%00", "%0a",
    "..\\", "..\\x", "a\\..\\b", "C:\\x", "\\\\host\\share", "\\x", "a\\b", "c:x",
    "~", "~root", "~/x", "~/.ssh", "$HOME", "${HOME}", "%HOME%",
    "\0", "a\0b", "a\0", "\0/etc", "\n", "a\nb", "a\n", "\na", "a\r\nb", "\r", "a\tb", "\x1b[31m", "a\x1b]0;x\x07",
    "\x7f",
    "\u0085", "\u2028", "\u202ex", "\u200b", "a\u200db", "\ufeffa", "\ud800", "a\udcffb",
    ".git", ".GIT", ".git/config", "x/.git", ".git/hooks/post-checkout", "git~1", ".git.", ".git ", ".g\u200cit",
    ".lock", "x.lock", "x.lock/y", "a/.lock", ".hidden", "a/.hidden", "x.", "x/", "/x/", "a//b",
    "-f", "-", "--", "--force", "--upload-pack=x", "--exec=x", "-c", "-ccore.pager=x", "--git-dir=/etc",
    "-oProxyCommand=x",
    "--config=core.sshCommand=x", "-u", "--template=/x", "--output=/x", "-h", "--help", "a/-f", "-x/y",
    "$(x)", "`x`", "a;b", "a|b", "a&b", "a>b", "a<b", "'x'", '"x"', "a b", " a", "a ", "!x", "{a,b}", "(x)", "a$b",
    "*", "a*b",
    "?", "a?b", "[a]", "a[b", "~x", "a~1", "a^", "a^{}", "a^{commit}", "a:b", ":/x", ":x", "a...b", "a..b", "..a",
    "^a",
    "\uff0e\uff0e/x", "\uff0e\uff0e", "\u2024\u2024/x", "\u2025/x", "\uff0fx", "a\uff0fb", "\uff0dx",
    "\ufe52\ufe52/x", "\u2215x",
    "\uff41", "\ufb01le", "\u212a", "a\u0301\u2044b", "\u2160x",
    "ext::sh -c x", "ext::sh", "fd::17", "EXT::x", "file::x", "http::ext::x", "a::b", "ext::%Swhoami",
    "refs/heads/x", "refs/../x", "refs/", "@{-1}", "@{u}", "HEAD@{1}", "x@{0}", "@", "@{upstream}", "-1",
    "HEAD", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "HEAD~1", "HEAD^", "HEAD:x",
    "/", "//", "/etc/../etc", "/..", "/etc/passwd\0", "/etc\n", "/proc/self/../x", "/x/.git", "/x/.git/",
    "/x/.git/modules/y",
    "https://", "https:///x", "https://-oProxyCommand=x/y", "ssh://-oProxyCommand=x/y", "ssh://a@-x/y", "git@-x:y",
    "git@h:-x", "git@h:--upload-pack=x", "-x@h:y", "git@h:../../x", "git@h:a/../../x", "git@h:$(x)", "git@h:`x`",
    "git@h:a b",
    "https://h/../x", "https://h/a/../../x", "https://h/%2e%2e/x", "https://h/%2E%2E/x", "https://h/a%2f..%2fb",
    "https://h/%00",
    "https://h/a b", "https://h/a\nb", "https://h/a?x=y", "https://h/a#x", "https://h", "https://h/",
    "https://h/$(x)",
    "https://u:p@h/x", "https://u:p@h:1/x", "https://u:@h/x", "https://@h/x", "https://h\\@x/y", "https://h:x/y",
    "https://h:999999/y",
    "file://", "file://x/y", "file://..", "file:///../x", "file:///a/%2e%2e/b", "file:///a/../b", "file:///a\\b",
    "file:x", "file:/x",
    "ftp://h/x", "ftps://h/x", "javascript:x", "data:x", "rsync://h/x", "svn://h/x", "s3://x/y", "git+ssh://h/x",
    "://x", "ssh:x",
    "x" * 300, "x/" * 200, "../" * 200, "a" * 5000, "/" + "x" * 5000, "https://h/" + "x" * 5000, "é" * 150,
    "/".join("x" * 300),
)  # fmt: skip
_AROUND = ("{}", "x/{}", "{}/x")
_POSITIONS = ("pod", "branch", "base", "repository", "worktree")
# What is left of these with something around it is as good as any other name.
_PLAIN_BRANCHES = frozenset(
    {"x./x", "x/refs/heads/x", "x/@", "@/x"}
    | {around.replace("{}", head) for head in ("HEAD", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD")
       for around in ("x/{}", "{}/x")}
)  # fmt: skip
_PLAIN_PATHS = frozenset({"/x", "/x/", "/x//x", "/", "//", "//x", "///x"})
_PLAIN_URLS = frozenset({"https://h/x", "file:///x"})
_STARTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"})

_started: list[str] = []
_watching = [False]


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _watching[0] and event in _STARTS:
        _started.append(f"{event} {arguments!r}")


sys.addaudithook(_watch)  # for good, so it is switched off in between


@contextmanager
def _started_processes() -> Generator[list[str]]:
    """Every process that is started, whatever it is started with."""
    _started.clear()
    _watching[0] = True
    try:
        yield _started
    finally:
        _watching[0] = False


def _hostile() -> list[str]:
    """Every stem, by itself and beside a plain name."""
    return list(dict.fromkeys(around.replace("{}", stem) for stem, around in itertools.product(_STEMS, _AROUND)))


def _listing(folder: Path, *, without: Path | None = None) -> dict[str, tuple[int, int, int]]:
    """Everything in a folder, with times, size and kind."""
    found: dict[str, tuple[int, int, int]] = {}
    for path in [folder, *folder.rglob("*")]:
        if without is None or not path.is_relative_to(without):
            status = path.lstat()
            found[str(path)] = (status.st_mtime_ns, status.st_size, status.st_mode)
    return found


def _use(checkouts: Checkouts, project: Path, position: str, name: str) -> None:
    """Give a name from outside to what takes such a name."""
    match position:
        case "pod":
            checkouts.create(name, project)
        case "branch":
            checkouts.create("ada", project, branch=name)
        case "base":
            checkouts.create("ada", project, base=name)
        case "repository":
            checkouts.create("ada", name)
        case _:
            checkouts.worktrees.remove(checkouts.worktrees.find(name), force=True)


def test_there_are_at_least_five_hundred_hostile_names() -> None:
    assert len(_hostile()) >= 500


@pytest.mark.parametrize("position", _POSITIONS)
def test_s9_hostile_names_are_refused_before_git_is_run_and_nothing_changes(
    checkouts: Checkouts, position: str
) -> None:
    project = checkouts.make()
    checkouts.create("stays", project)
    plain = {"branch": _PLAIN_BRANCHES, "base": _PLAIN_BRANCHES, "repository": _PLAIN_PATHS | _PLAIN_URLS}
    refusal = {"branch": BadBranch, "base": BadBase, "repository": BadRepository}.get(position, BadName)
    before = _listing(checkouts.folder)

    with _started_processes() as started:
        for name in _hostile():
            if name in plain.get(position, ()):
                continue
            with pytest.raises(BadInput) as refused:
                _use(checkouts, project, position, name)
            assert isinstance(refused.value, refusal), name
            assert refused.value.hint, name
            assert len(str(refused.value)) < 1000, name

    assert started == []
    assert _listing(checkouts.folder) == before


@pytest.mark.parametrize("name", sorted(_PLAIN_BRANCHES))
def test_s9_names_that_are_plain_after_all_stay_in_their_place(checkouts: Checkouts, name: str) -> None:
    project = checkouts.make()
    checkouts.create("stays", project)
    checkouts.git("checkout", "--quiet", "--detach", cwd=project)
    before = _listing(checkouts.folder, without=checkouts.home)

    made = checkouts.create("ada", project, branch=name)
    again = checkouts.create("bob", project, base=name)

    git = project / ".git"
    changed = {
        path
        for path, status in _listing(checkouts.folder, without=checkouts.home).items()
        if before.get(path) != status
    }
    assert made.path == checkouts.home / "worktrees" / "ada"
    assert again.base == checkouts.git("rev-parse", f"refs/heads/{name}", cwd=project)
    assert {Path(path).relative_to(git).parts[0] for path in changed if path != str(git)} <= {
        "refs",
        "logs",
        "worktrees",
    }


@pytest.mark.parametrize("name", sorted(_PLAIN_PATHS))
def test_s9_paths_that_are_plain_after_all_are_only_looked_at(checkouts: Checkouts, name: str) -> None:
    checkouts.create("stays", checkouts.make())
    before = _listing(checkouts.folder)

    with pytest.raises(BadRepository):
        checkouts.create("ada", name)

    assert _listing(checkouts.folder) == before


@pytest.mark.parametrize("parse", [parse_pod_id, parse_session_id])
def test_s9_hostile_ids_are_refused(parse: object) -> None:
    assert callable(parse)
    for name in _hostile():
        with pytest.raises(BadId):
            parse(name)


def test_s9_what_is_accepted_has_nothing_that_acts_on_git_a_shell_or_a_path() -> None:
    """The other way round: any mixture of harmless and dangerous pieces that gets through is harmless."""
    pieces = (
        "a",
        "B",
        "0",
        "é",
        "-",
        ".",
        "/",
        "\\",
        "@",
        "{",
        "~",
        "%",
        ":",
        " ",
        "\n",
        "\0",
        "$",
        "lock",
        "..",
        "\uff0e",
    )
    for words in itertools.chain.from_iterable(itertools.product(pieces, repeat=length) for length in (1, 2, 3, 4)):
        raw = "".join(words)
        for parse in (parse_pod_name, parse_branch_name, parse_base):
            try:
                name = parse(raw)
            except BadInput:
                continue
            assert not set(name) & set("\\{}~%: \n\0$*?[^\uff0e"), raw
            assert not name.startswith(("-", "/", ".")), raw
            assert ".." not in name, raw
            assert "/-" not in name, raw
            assert os.path.normpath(name) == name, raw


@pytest.mark.parametrize("link", ["worktrees", "worktrees/.facts", "worktrees/.removed", "repositories"])
def test_s9_a_symbolic_link_instead_of_a_folder_of_ours_is_not_followed(checkouts: Checkouts, link: str) -> None:
    project = checkouts.make()
    elsewhere = checkouts.folder / "elsewhere"
    elsewhere.mkdir()
    (checkouts.home / link).parent.mkdir(parents=True, exist_ok=True)
    (checkouts.home / link).symlink_to(elsewhere)
    before = _listing(elsewhere)

    with _started_processes() as started, pytest.raises(HomeUnusable):
        checkouts.create("ada", project)

    assert started == []
    assert _listing(elsewhere) == before


@pytest.mark.parametrize("link", [".facts/ada.lock", ".facts/ada.json.new", "ada"])
def test_s9_a_symbolic_link_instead_of_a_file_of_ours_is_not_followed(checkouts: Checkouts, link: str) -> None:
    project = checkouts.make()
    checkouts.create("stays", project)
    victim = checkouts.folder / "victim"
    victim.write_text("precious")
    (checkouts.home / "worktrees" / link).symlink_to(victim)
    before = _listing(victim)

    if link == "ada":
        assert checkouts.create("ada", project).name == "ada-2"
    else:
        with pytest.raises(HomeUnusable):
            checkouts.create("ada", project)

    assert _listing(victim) == before
    assert victim.read_text() == "precious"


def test_s9_facts_that_somebody_forged_lead_nowhere(checkouts: Checkouts) -> None:
    project, victim = checkouts.make(), checkouts.make("victim")
    made = checkouts.create("ada", project)
    (victim / "precious").write_text("not committed")
    facts = checkouts.home / "worktrees/.facts/ada.json"
    facts.write_text(
        facts.read_text().replace(str(project), str(victim)).replace('"name":"ada"', '"name":"../../victim"')
    )
    before = _listing(victim)

    with pytest.raises(WorktreeMissing):
        checkouts.worktrees.remove(made, force=False)
    checkouts.worktrees.remove(made, force=True)

    assert _listing(victim) == before
    assert not made.path.exists()


def test_s9_good_names_are_accepted() -> None:
    for name in ("a", "a-b_c.d", "0", "x" * 63):
        assert parse_pod_name(name) == PodName(name)
    for name in (
        "main",
        "feature/größe",
        "dependabot/npm/@types/node-1.2.3",
        "fix/#12",
        "a+b",
        "release-1.2",
        "日本語",
    ):
        assert parse_branch_name(name) == parse_base(name) == name
    for name in ("0123abc", "f" * 40, "0" * 64):
        assert parse_base(name) == name
    assert parse_repository("/srv/a b") == "/srv/a b"
