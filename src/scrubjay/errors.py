"""Everything Scrubjay raises on purpose.

    ScrubjayError
    ├── BadInput              what was asked for cannot be understood; exit code 2
    │   ├── BadId
    │   ├── BadName
    │   ├── BadSize
    │   ├── BadKey
    │   ├── BadInstant
    │   ├── BadQuery
    │   ├── BadBranch
    │   ├── BadBase
    │   ├── BadRepository
    │   ├── BadSetting
    │   └── BadManifest        an agent's manifest that cannot be used
    ├── TapeError
    │   ├── NotATape
    │   ├── DiskFull          the tape's disk has no room; nothing is lost, try again later
    │   ├── TapeDamaged       a part of a tape that cannot be read
    │   ├── TapeDiverged      bytes that do not continue the copy of a tape
    │   └── RecordTooLarge
    ├── CastError             an asciicast that cannot be read
    ├── HomeUnusable          the data directory cannot be used
    ├── GitError
    │   ├── GitMissing        there is no git here
    │   ├── GitFailed         git said no, with its own words
    │   ├── NoSuchBase        nothing in the repository has that name
    │   ├── RepositoryGone    it is not where it was when a worktree was made of it
    │   └── RepositoryBusy    another pod's worktree is being made for too long
    ├── WorktreeError
    │   ├── NoSuchWorktree
    │   ├── BranchInUse       another worktree has the branch
    │   ├── WorktreeDirty     removing it would lose work
    │   ├── WorktreeMissing   its folder or repository is gone
    │   ├── NoWorktree        the pod works in no worktree of its own
    │   └── NoCheckpoint      nothing was kept of a worktree up to then
    ├── EngineUnavailable     the terminal engine does not start here
    ├── SearchUnavailable     the search index cannot be used
    │   └── IndexDiscarded    it was damaged; it will be made again
    ├── ServiceUnavailable    there is no systemd user manager here
    ├── ServiceFailed         systemd did not do what it was asked
    ├── CatalogError          something about the fleet's catalog
    │   ├── CatalogUnavailable   it cannot be read or written now; nothing is half done
    │   ├── CatalogInUse         another process has it
    │   ├── CatalogTooNew        a newer version of Scrubjay has changed it
    │   └── UnsafeSqlite         this SQLite can damage it
    ├── CannotListen          an address or socket the server cannot have
    ├── CoordinationError     something between agents
    │   ├── NoSuchBinding
    │   ├── BindingUnfit      nothing of the kind can become of a binding now
    │   ├── NoSuchChannel
    │   ├── ChannelTaken
    │   ├── NoSuchMessage
    │   ├── NoSuchWait
    │   ├── NoSuchHandoff
    │   ├── HandoffUnfit      nothing of the kind can become of a handoff now
    │   ├── ScopeMissing      no binding allows that
    │   └── NotForRole        something only agents do, or only people
    ├── SessionError
    │   ├── NoSuchSession
    │   ├── AmbiguousSession
    │   ├── NotInSession      whoever asks is in none
    │   ├── LeaseHeld         somebody else has it
    │   ├── Fenced            somebody writes who has it no longer
    │   ├── SessionFinished
    │   ├── SessionExpired    it was left alone for too long
    │   ├── KeyReused         a key that stands for another memory
    │   ├── SummaryUnfit      these memories cannot be summed up so
    │   ├── SummaryStale      they are not what they were
    │   ├── ClaimLost         somebody else makes that summary by now
    │   └── NoSummariser      nobody makes summaries here
    └── PodError
        ├── NoSuchPod
        ├── AmbiguousPod
        ├── NameTaken
        ├── PodNotRunning
        ├── PodRunning
        ├── PodUnreachable    its runner is not connected
        ├── RunnerTooOld      its runner does not know what it is asked for
        ├── ScreenUnavailable its live screen cannot be shown now
        ├── KeyboardHeld      somebody else types into it
        ├── NotHolder         typing without having taken the keyboard
        ├── StartFailed
        ├── ResumeRefused     its work cannot go on as things are; nothing was changed
        ├── KeeperRefused     the keeper answered no
        └── KeeperGone        the keeper's connection ended without an answer

An error has fields, a one-sentence message and, where a person can act, a hint.
"""

from __future__ import annotations


class ScrubjayError(Exception):
    """Something Scrubjay cannot do, said in one sentence."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class BadInput(ScrubjayError):
    """What was asked for cannot be understood."""


class BadId(BadInput):
    """A text that is not an id."""

    def __init__(self, kind: str, raw: str) -> None:
        self.kind, self.raw = kind, raw
        super().__init__(
            f"{raw!r} is not a {kind} id",
            hint="an id is 26 characters out of a-z and 2-7",
        )


class BadName(BadInput):
    """A text that cannot name a pod."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"{shown!r} cannot be a pod's name",
            hint="use 1 to 63 of a-z, 0-9, '-', '_' and '.', starting with a letter or digit",
        )


class BadSize(BadInput):
    """A terminal size nothing can be drawn on, or larger than any screen."""

    def __init__(self, cols: int, rows: int, *, smallest: tuple[int, int], largest: tuple[int, int]) -> None:
        self.cols, self.rows = cols, rows
        small = cols < smallest[0] or rows < smallest[1]
        super().__init__(
            f"a terminal of {cols}x{rows} is too {'small' if small else 'large'}",
            hint=f"from {smallest[0]}x{smallest[1]} to {largest[0]}x{largest[1]} works: "
            + ("enlarge the window, or give --cols and --rows" if small else "give a smaller --cols or --rows"),
        )


class BadKey(BadInput):
    """A text that names no key."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(
            f"{raw!r} is not a key",
            hint="keys are like enter, esc, tab, up, f5, ctrl-c, alt-x, shift-tab",
        )


class BadInstant(BadInput):
    """A text that names no instant: of a recording, or, if other ``times`` are meant, no such time."""

    def __init__(self, raw: str, times: str | None = None) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        of_a_recording = "12.5s, 1h2m, 50%, -10m (before the end), 02:14:07, 2026-11-15T02:14 or @OFFSET"
        super().__init__(f"{shown!r} is not a time", hint=f"times are like {times or of_a_recording}")


class BadQuery(BadInput):
    """A text that holds nothing to search for."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"there is nothing to search for in {shown!r}",
            hint='give words, "a phrase" or a beginning*; -word leaves out what has that word',
        )


class BadBranch(BadInput):
    """A text that cannot name a branch."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"{shown!r} cannot be a branch",
            hint="use letters, digits and any of '-_.+#=@,' in parts joined by '/', without refs/heads/ in front",
        )


class BadBase(BadInput):
    """A text that cannot name a commit to start from."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(
            f"{shown!r} cannot be what a branch starts from",
            hint="give a branch, a tag or 7 to 64 digits of a commit; without one it is HEAD or the default branch",
        )


class BadRepository(BadInput):
    """An address that leads to no repository, or not safely."""

    def __init__(self, address: str, why: str, *, hint: str | None = None) -> None:
        self.address, self.why = address, why
        shown = address if len(address) <= 120 else address[:120] + "…"
        super().__init__(
            f"{shown!r} is not a repository to work in: {why}",
            hint=hint or "give an absolute path, or a URL with https, ssh, git or file, or user@host:path",
        )


class BadSetting(BadInput):
    """A setting whose value cannot be used."""


class BadManifest(BadInput):
    """An agent's manifest that cannot be used."""

    def __init__(self, path: str, key: str | None, why: str, *, hint: str) -> None:
        self.path, self.key, self.why = path, key, why
        super().__init__(f"{path}: {why}" if key is None else f"{path}: {key} {why}", hint=hint)


class TapeError(ScrubjayError):
    """Something about one tape."""


class NotATape(TapeError):
    """A file or folder that holds no tape."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} is not a tape: {why}", hint="'scrubjay ps --all' lists the tapes there are")


class DiskFull(TapeError):
    """The tape's disk has no room; what was not written is kept in memory and can be written later."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no space left for {path}", hint="free some space; recording goes on by itself")


class TapeDamaged(TapeError):
    """A part of a tape that cannot be read, at or after an offset."""

    def __init__(self, tape: str, offset: int, why: str) -> None:
        self.tape, self.offset, self.why = tape, offset, why
        super().__init__(f"tape {tape} cannot be read at offset {offset}: {why}", hint="'scrubjay verify' says more")


class TapeDiverged(TapeError):
    """Bytes that are not what follows in the copy of a tape; the copy is left as it is."""

    def __init__(self, tape: str, offset: int, why: str) -> None:
        self.tape, self.offset, self.why = tape, offset, why
        super().__init__(f"the copy of tape {tape} does not go on like that at offset {offset}: {why}")


class RecordTooLarge(TapeError):
    """A record above the size every reader can hold."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"a record of {size} bytes is above the limit of {limit}")


class CastError(ScrubjayError):
    """An asciicast that cannot be read."""

    def __init__(self, source: str, why: str, *, line: int | None = None, hint: str | None = None) -> None:
        self.source, self.why, self.line = source, why, line
        place = source if line is None else f"{source} line {line}"
        super().__init__(f"{place}: {why}", hint=hint)


class HomeUnusable(ScrubjayError):
    """The data directory cannot be used."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"cannot use {path} for recordings: {why}",
            hint="give another directory with --data or SCRUBJAY_DATA",
        )


class GitError(ScrubjayError):
    """Something about git or one of its repositories."""


class GitMissing(GitError):
    """There is no git program."""

    def __init__(self) -> None:
        super().__init__(
            "there is no git here", hint="install git 2.34 or newer, or start the pod without a repository"
        )


class GitFailed(GitError):
    """Git ended with an error, or was ended because it took too long."""

    def __init__(self, command: str, why: str, *, status: int | None, stderr: str, hint: str | None = None) -> None:
        self.command, self.why, self.status, self.stderr = command, why, status, stderr
        super().__init__(f"git {command} failed: {why}", hint=hint)


class NoSuchBase(GitError):
    """The repository has no commit of that name."""

    def __init__(self, repository: str, base: str | None) -> None:
        self.repository, self.base = repository, base
        if base is None:
            super().__init__(
                f"{repository} has no commit to start from",
                hint="make a first commit, or give a base",
            )
        else:
            super().__init__(
                f"{repository} has no branch, tag or commit {base!r}",
                hint="check the spelling; a branch of a remote repository must have been pushed",
            )


class RepositoryGone(GitError):
    """A repository is not where it was when a worktree was made of it."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        super().__init__(
            f"the repository {repository} is gone, and with it what was kept of its worktrees",
            hint="bring it back to where it was, and try again",
        )


class RepositoryBusy(GitError):
    """Somebody else changes the repository and does not come to an end."""

    def __init__(self, repository: str, waited_s: float) -> None:
        self.repository, self.waited_s = repository, waited_s
        super().__init__(
            f"{repository} was still being cloned, fetched or changed for another pod after {waited_s:g} s",
            hint="try again later",
        )


class WorktreeError(ScrubjayError):
    """Something about one worktree."""


class NoSuchWorktree(WorktreeError):
    """There is no worktree of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no worktree {name!r}", hint="list the worktrees to see their names")


class BranchInUse(WorktreeError):
    """A branch can be worked on in one place at a time."""

    def __init__(self, branch: str, where: str) -> None:
        self.branch, self.where = branch, where
        super().__init__(
            f"branch {branch!r} is in use in {where}",
            hint="give another branch, or switch that one to another branch",
        )


class WorktreeDirty(WorktreeError):
    """Removing the worktree would lose work that no branch has."""

    def __init__(self, name: str, path: str, reasons: tuple[str, ...]) -> None:
        self.name, self.path, self.reasons = name, path, reasons
        super().__init__(
            f"worktree {name!r} has {' and '.join(reasons)}",
            hint=f"commit or discard that in {path}, or remove it with force; its branch stays either way",
        )


class WorktreeMissing(WorktreeError):
    """The worktree's folder or repository is not where it was."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"worktree {name!r} cannot be looked at: {why}", hint="bring it back, or remove it with force")


class NoWorktree(WorktreeError):
    """The pod works in no worktree of its own, so that nothing is known of its files."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        super().__init__(
            f"pod {pod!r} has no worktree of its own",
            hint="start pods with --repo: then what they change is kept, and can be compared and forked",
        )


class NoCheckpoint(WorktreeError):
    """Nothing was kept of a pod's worktree up to an instant."""

    def __init__(self, pod: str, *, first_at_us: int | None = None, asked: str = "") -> None:
        self.pod, self.first_at_us = pod, first_at_us
        if first_at_us is None:
            super().__init__(
                f"nothing was kept of the worktree of pod {pod!r}",
                hint="'scrubjay up' keeps it whenever the agent is idle or waits, and at its end",
            )
            return
        super().__init__(
            f"nothing was kept of the worktree of pod {pod!r} up to {asked or 'then'}",
            # Rounded up: whoever asks for what is said here must find it.
            hint=f"the first is {-(-first_at_us // 100_000) / 10} s into its recording; "
            f"'scrubjay checkpoints {pod}' lists all",
        )


class SearchUnavailable(ScrubjayError):
    """The search index cannot be used."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"cannot search with {path}: {why}",
            hint="free some space or make it writable; replay works without it, and it can be deleted",
        )


class IndexDiscarded(SearchUnavailable):
    """The search index was damaged and is gone; it is made again when it is next brought up to date."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it was damaged and has been thrown away")
        self.hint = "try again"


class EngineUnavailable(ScrubjayError):
    """The terminal engine does not start here; recording does not need it."""

    def __init__(self) -> None:
        super().__init__(
            "the terminal engine does not start", hint="SCRUBJAY_DEBUG=1 shows why; 'scrubjay logs' works without it"
        )


class ServiceUnavailable(ScrubjayError):
    """There is no systemd user manager to give a service to."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"there is no systemd user manager here: {why}",
            hint="keep 'scrubjay up' running by other means; 'scrubjay service install --print' shows the unit",
        )


class ServiceFailed(ScrubjayError):
    """systemd did not do what it was asked."""

    def __init__(self, asked: str, why: str) -> None:
        self.asked, self.why = asked, why
        super().__init__(f"systemctl --user {asked}: {why}", hint="see: journalctl --user -u scrubjay.service -n 50")


class CatalogError(ScrubjayError):
    """Something about the fleet's catalog."""


class CatalogUnavailable(CatalogError):
    """The catalog cannot be read or written at the moment; what was asked for has not been done, not even in part."""

    def __init__(self, path: str, why: str, *, hint: str | None = None) -> None:
        self.path, self.why = path, why
        super().__init__(f"cannot use the catalog {path}: {why}", hint=hint)


class CatalogInUse(CatalogError):
    """Another process has the catalog, and there is only ever one."""

    def __init__(self, path: str, holder: str) -> None:
        self.path, self.holder = path, holder
        super().__init__(
            f"the catalog {path} is in use by process {holder}",
            hint="talk to the server that runs, end it, or give another directory with --data",
        )


class CatalogTooNew(CatalogError):
    """The catalog has a shape that only a newer version of Scrubjay knows."""

    def __init__(self, path: str, revision: str) -> None:
        self.path, self.revision = path, revision
        super().__init__(
            f"the catalog {path} was changed by a newer version of Scrubjay (revision {revision})",
            hint="upgrade Scrubjay, or give another directory with --data",
        )


class UnsafeSqlite(CatalogError):
    """A SQLite library that can damage the catalog."""

    def __init__(self, version: str, needed: str) -> None:
        self.version, self.needed = version, needed
        super().__init__(
            f"SQLite {version} can damage a database in use (the WAL-reset bug)",
            hint=f"install a pysqlite3 that brings SQLite {needed} or newer: pip install --upgrade pysqlite3",
        )


class CannotListen(ScrubjayError):
    """An address or socket the server cannot have."""

    def __init__(self, address: str, why: str, *, taken: bool = False) -> None:
        self.address, self.why, self.taken = address, why, taken
        super().__init__(
            f"cannot listen on {address}: {why}",
            hint="another program has it: end that, or give another --port" if taken else "give another --port",
        )


class PodError(ScrubjayError):
    """Something about one pod."""


class NoSuchPod(PodError):
    """No pod has that name, id or prefix."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no pod {raw!r}", hint="'scrubjay ps --all' lists them")


class AmbiguousPod(PodError):
    """A prefix that more than one pod has."""

    def __init__(self, raw: str, candidates: list[str]) -> None:
        self.raw, self.candidates = raw, candidates
        shown = ", ".join(candidates[:6]) + (", …" if len(candidates) > 6 else "")
        super().__init__(f"{raw!r} may be any of {shown}", hint="give more of the name or id")


class NameTaken(PodError):
    """A running pod has that name."""

    def __init__(self, name: str, pod: str) -> None:
        self.name, self.pod = name, pod
        super().__init__(
            f"the name {name!r} is taken by running pod {pod[:8]}",
            hint=f"give another --name, or end it with 'scrubjay stop {name}'",
        )


class PodNotRunning(PodError):
    """The pod's agent has ended."""

    def __init__(self, name: str, state: str) -> None:
        self.name, self.state = name, state
        super().__init__(f"pod {name!r} is not running: {state}", hint=f"'scrubjay logs {name}' shows what it did")


class PodRunning(PodError):
    """The pod's agent runs, and this needs it ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"pod {name!r} is running", hint=f"end it first with 'scrubjay stop {name}'")


class ScreenUnavailable(PodError):
    """A pod's live screen that cannot be shown now; recording does not need it."""

    def __init__(self, pod: str, why: str) -> None:
        self.pod, self.why = pod, why
        super().__init__(f"the screen of pod {pod} is unavailable: {why}", hint="its tape has everything it shows")


class PodUnreachable(PodError):
    """The runner that has the pod is not connected."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the machine that runs pod {name!r} is not connected",
            hint="the pod goes on there; what was recorded before can be looked at",
        )


class RunnerTooOld(PodError):
    """A runner does not know what it is asked for."""


class KeyboardHeld(PodError):
    """Somebody else types into the pod."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{holder} has the keyboard", hint="wait until it is given back, or take it over")


class NotHolder(PodError):
    """Somebody types who has not taken the keyboard, or has lost it."""

    def __init__(self, holder: str | None) -> None:
        self.holder = holder
        who = f"{holder} has the keyboard" if holder is not None else "nobody has taken the keyboard"
        super().__init__(who, hint="take it first")


class StartFailed(PodError):
    """The pod's program could not be started; nothing is left behind."""


class ResumeRefused(PodError):
    """The work of a pod cannot go on as things are; nothing was changed."""

    def __init__(self, name: str, whys: tuple[str, ...], *, hint: str | None = None) -> None:
        self.name, self.whys = name, whys
        super().__init__(f"pod {name!r} cannot be resumed: {'; '.join(whys)}", hint=hint)


class KeeperRefused(PodError):
    """The keeper answered that it will not do what was asked."""


class KeeperGone(PodError):
    """The keeper's connection ended without an answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the keeper of pod {name!r} went away", hint="'scrubjay ps' shows what became of it")


class CoordinationError(ScrubjayError):
    """Something between agents."""


class NoSuchBinding(CoordinationError):
    """No binding of theirs has that id."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no binding {raw!r}", hint="'scrubjay bindings' or list_bindings lists them")


class BindingUnfit(CoordinationError):
    """Nothing of the kind can become of a binding in its state."""

    def __init__(self, binding: str, why: str) -> None:
        self.binding, self.why = binding, why
        super().__init__(f"that cannot be done to binding {binding[:8]}: {why}", hint="ask for a new one, if need be")


class NoSuchChannel(CoordinationError):
    """No channel of theirs has that name."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no channel {raw!r}", hint="'scrubjay channel list' or list_channels lists them")


class ChannelTaken(CoordinationError):
    """Another channel has that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a channel {name!r} already", hint="post to it, or choose another name")


class NoSuchMessage(CoordinationError):
    """No message of theirs has that number."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no message {raw!r}", hint="a message is called by channel and number: build#12")


class NoSuchWait(CoordinationError):
    """No wait of theirs has that id."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(f"there is no wait {raw!r}", hint="'scrubjay waits' or list_waits lists them")


class NoSuchHandoff(CoordinationError):
    """No handoff for them has that id or key."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(
            f"there is no handoff {raw!r}",
            hint="'scrubjay handoff list' lists them; wait_for(artifact=…) waits for one",
        )


class HandoffUnfit(CoordinationError):
    """Nothing of the kind can become of a handoff in its state."""

    def __init__(self, handoff: str, why: str) -> None:
        self.handoff, self.why = handoff, why
        super().__init__(f"that cannot be done to handoff {handoff[:8]}: {why}", hint="see 'scrubjay handoff list'")


class ScopeMissing(CoordinationError):
    """A terminal that somebody may not read, or not type into."""

    def __init__(self, pod: str, scope: str) -> None:
        self.pod, self.scope = pod, scope
        super().__init__(
            f"you have no {scope} on pod {pod!r}", hint=f"ask for it: request_binding(pod={pod!r}, scopes=[{scope!r}])"
        )


class NotForRole(CoordinationError):
    """Something that only agents do, or only people."""


class SessionError(ScrubjayError):
    """Something about a session."""


class NoSuchSession(SessionError):
    """No session of theirs has that id."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        shown = raw if len(raw) <= 60 else raw[:60] + "…"
        super().__init__(f"there is no session {shown!r}", hint="'scrubjay sessions' or list_sessions lists them")


class LeaseHeld(SessionError):
    """Somebody else has a session."""

    def __init__(self, session: str, by: str, until_us: int | None = None, *, hint: str | None = None) -> None:
        """``until_us`` is when it will be free if nothing is heard from them; None as long as they live."""
        self.session, self.by, self.until_us = session, by, until_us
        super().__init__(
            f"session {session[:8]} is held by {by}",
            hint=hint if hint is not None else "wait until it is let go; --takeover or takeover=true takes it over",
        )


class Fenced(SessionError):
    """Somebody writes into a session that they have no longer."""

    def __init__(self, session: str, by: str | None, epoch: int) -> None:
        self.session, self.by, self.epoch = session, by, epoch
        who = f"another connection ({by}) has it now" if by is not None else "you do not hold it any more"
        super().__init__(
            f"nothing was written into session {session[:8]}: {who}, and its epoch is {epoch}",
            hint=f"resume_session(session_id={session!r}) asks for it again; takeover=true takes it",
        )


class SessionFinished(SessionError):
    """Nothing is added to a session that is finished."""

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"session {session[:8]} is finished",
            hint=f"resume it with --reopen, or by resume_session(session_id={session!r}, reopen=true)",
        )


class KeyReused(SessionError):
    """A key that stands for another memory."""

    def __init__(self, key: str, seq: int) -> None:
        self.key, self.seq = key, seq
        super().__init__(
            f"the idempotency key {key[:40]!r} was used for memory {seq}, which says something else",
            hint="give each memory a key of its own, and the same only when you try again",
        )


class SessionExpired(SessionError):
    """A session that was left alone for too long."""

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"session {session[:8]} was left alone for too long",
            hint=f"resume it with --reopen, or by resume_session(session_id={session!r}, reopen=true)",
        )


class SummaryUnfit(SessionError):
    """A summary that does not go on where the last one has ended."""

    def __init__(self, session: str, *, covered_to_seq: int, last_seq: int) -> None:
        self.session, self.covered_to_seq, self.last_seq = session, covered_to_seq, last_seq
        first = covered_to_seq + 1
        before = ": each is in one summary, and those before it are" if covered_to_seq else ""
        super().__init__(
            f"the next summary of session {session[:8]} begins with memory {first}{before}",
            hint=f"summarise from {first} to at most {last_seq}"
            if last_seq >= first
            else "there is nothing new to summarise; get_summary shows what there is",
        )


class SummaryStale(SessionError):
    """A summary of memories that are not what they were when it was begun."""

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"the memories of session {session[:8]} have changed while they were summarised")


class ClaimLost(SessionError):
    """Whoever makes a summary was silent for too long, or it is not wanted any more."""

    def __init__(self) -> None:
        super().__init__("this summary is no longer yours to make: somebody else makes it, or it is there")


class NoSummariser(SessionError):
    """There is nobody who makes summaries."""

    def __init__(self) -> None:
        super().__init__(
            "no summariser is set",
            hint="set summary_command or summary_url for the server, or let the agent write one with save_summary",
        )


class NotInSession(SessionError):
    """Somebody asks for the session they are in, and are in none."""

    def __init__(self) -> None:
        super().__init__(
            "you are in no session yet", hint="add_memory begins one; list_sessions shows those you can resume"
        )


class AmbiguousSession(SessionError):
    """Several sessions begin so."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        super().__init__(
            f"several sessions begin with {raw!r}", hint="give more of the id; 'scrubjay sessions' lists them"
        )
