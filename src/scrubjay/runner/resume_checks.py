"""Look at everything that a pod's work needs to go on, before anything is touched.

Each check adds what it finds; who asked sees all of it together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scrubjay.agents.conversations import Kept, Place, find_conversation
from scrubjay.agents.manifest import Manifest
from scrubjay.errors import GitError, NoSuchWorktree, StartFailed, WorktreeMissing
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.pods.launch import check_command
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.runner.changes import WorktreeState
from scrubjay.runner.findings import Finding
from scrubjay.runner.open_conversations import find_openers
from scrubjay.runner.start import require_program
from scrubjay.runner.worktrees import Worktree, Worktrees
from scrubjay.tape.redaction import is_veiled

NEW_CONVERSATION = "--new-conversation begins another in the same session and worktree"

_SHORT = 8  # characters of an id or commit
_LAST_BYTES = 1 << 20  # of a tape, in which its last record is


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be done."""

    old: Pod
    manifest: Manifest | None  #: None if it is no agent, or none that begins a conversation
    words: tuple[str, ...]  #: what a person gave of its command
    conversation: str | None  #: the one to go on with; None if there is none, or another is begun
    name: str
    takeover: bool
    environ: Mapping[str, str]


def look_at_holders(intent: Intent, home: Home) -> list[Finding]:
    """Who has the session, the name, or the conversation in another session."""
    old, found = intent.old, list[Finding]()
    if old.imported:
        found.append(Finding("imported", "it was imported, so there is nothing to go on with", stops=True))
    for pod in home.pods():
        if not pod.alive:
            continue
        shown = f"pod {pod.name!r} ({pod.id[:_SHORT]})"
        if pod.session == old.session:
            hint = f"join it with 'scrubjay attach {pod.name}', or take it over with --takeover"
            text = f"running {shown} has the session"
            if intent.takeover:
                found.append(Finding("held", text, hint="it is ended first"))
            else:
                found.append(Finding("held", text, stops=True, hint=hint))
        elif intent.conversation is not None and pod.conversation == intent.conversation:
            hint = f"end it first with 'scrubjay stop {pod.name}'"
            found.append(Finding("open", f"running {shown} has its conversation open", stops=True, hint=hint))
        elif pod.name == intent.name:
            hint = f"give another --name, or end it with 'scrubjay stop {pod.name}'"
            found.append(Finding("name", f"running {shown} has its name", stops=True, hint=hint))
    return found


def look_at_place(intent: Intent, worktrees: Worktrees) -> tuple[list[Finding], Worktree | None]:
    """Where it ran."""
    old = intent.old
    if old.worktree is None:
        if Path(old.cwd).is_dir():
            return [], None
        text = f"the folder it ran in, {old.cwd}, is gone"
        return [Finding("folder", text, stops=True, hint="bring it back")], None
    try:
        tree = worktrees.find(old.worktree)
    except NoSuchWorktree:
        hint = f"its branch {old.branch} is kept: begin anew with 'run --repo {old.repository} --branch {old.branch}'"
        return [Finding("worktree", f"its worktree {old.worktree} was removed", stops=True, hint=hint)], None
    try:
        state = worktrees.inspect(tree)
        if tree.missing is not None or state.missing is not None:
            return [_missing(old, tree, tree.missing or state.missing or "")], None
        found = _look_at_state(old, state, worktrees.head_at(tree, _ended_us(old)))
    except WorktreeMissing as error:
        return [_missing(old, tree, error.why)], None
    except GitError as error:
        found = [Finding("unlooked", f"how its worktree is cannot be told: {error}", hint=error.hint)]
    if not Path(old.cwd).is_dir():
        text = f"the folder it ran in, {old.cwd}, is gone from its worktree"
        found.append(Finding("folder", text, stops=True, hint="make it again"))
    return found, tree


def _missing(old: Pod, tree: Worktree, why: str) -> Finding:
    hint = f"bring it back: git -C {tree.repository} worktree add -f -f {tree.path} {tree.branch}"
    if not tree.repository.startswith("/"):
        hint = f"begin anew with 'run --repo {tree.repository} --branch {tree.branch}'"
    return Finding("worktree", f"its worktree {old.worktree} is not there: {why}", stops=True, hint=hint)


def _look_at_state(old: Pod, state: WorktreeState, head_then: str | None) -> list[Finding]:
    found: list[Finding] = []
    counts = (
        (state.staged, "staged"),
        (state.unstaged, "unstaged"),
        (state.unmerged, "unmerged"),
        (state.untracked, "untracked"),
    )
    dirty = ", ".join(f"{count} {what}" for count, what in counts if count)
    if dirty:
        found.append(Finding("dirty", f"its worktree has changes that are not committed: {dirty}"))
    if state.operation is not None:
        found.append(Finding("merge", f"a {state.operation} is in progress in its worktree"))
    if state.branch != old.branch:
        now = f"on branch {state.branch}" if state.branch is not None else "on no branch"
        found.append(Finding("branch", f"its worktree is {now}, and was made with {old.branch}"))
    if head_then is not None and head_then != state.head:
        then, now = head_then[:_SHORT], (state.head or "nothing")[:_SHORT]
        found.append(Finding("moved", f"HEAD was at {then} when it ended, and is at {now} now"))
    return found


def _ended_us(pod: Pod) -> int:
    """When it ended, or was last heard of."""
    seen = pod.observe()
    if seen.ended_us is not None:
        return seen.ended_us
    tape, last = pod.tape(), 0
    for record in tape.records(tape.align(max(0, tape.end - _LAST_BYTES))):
        last = record.at
    return pod.created_us + last


def look_at_program(intent: Intent) -> list[Finding]:
    """What is to be run."""
    found: list[Finding] = []
    if any(map(is_veiled, intent.words)):
        text = "one of its arguments was a secret, which is not kept"
        hint = "give its arguments again after --"
        found.append(Finding("secret", text, stops=True, hint=hint))
    lacking = [name for name in intent.old.given if name not in intent.environ]
    if lacking:
        text = f"it was started with --env {', '.join(lacking)}, whose values are not kept"
        found.append(Finding("environment", text, hint="give them again with --env, if it needs them"))
    program = intent.old.argv[:1]
    try:
        if intent.manifest is not None and "/" not in "".join(program):
            require_program(intent.manifest, intent.environ)
        elif program:
            check_command(program, Path(intent.old.cwd), intent.environ)
    except StartFailed as error:
        found.append(Finding("agent", str(error), stops=True, hint=error.hint))
    return found


def look_at_conversation(intent: Intent, home: Home) -> list[Finding]:
    """The conversation it goes on with."""
    manifest, conversation = intent.manifest, intent.conversation
    if manifest is None or conversation is None:
        return []
    place = Place(Path(intent.old.cwd), intent.environ)
    kept = find_conversation(manifest.conversation, conversation, place)
    # A running pod of the session holds that, which is another matter: it may be taken over.
    openers = [
        opener
        for opener in find_openers(manifest, conversation, kept, place)
        if opener.pod is None or not _holds(home.folder_of(PodId(opener.pod)), intent.old)
    ]
    return _look_at_kept(manifest, conversation, kept) + [
        Finding("open", f"{opener} has its conversation open: {opener.how}", stops=True, hint="end that first")
        for opener in openers[:1]
    ]


def _holds(folder: Path, old: Pod) -> bool:
    pod = read_pod(folder)
    return pod is not None and pod.session == old.session and pod.alive


def _look_at_kept(manifest: Manifest, conversation: str, kept: Kept) -> list[Finding]:
    if kept.there is None:
        text = f"whether {manifest.title} still has conversation {conversation} is not checked"
        return [Finding("unchecked", text)]
    if not kept.there:
        text = f"{manifest.title} has no conversation {conversation}: it was deleted, or nothing was said in it"
        return [Finding("conversation", text, stops=True, hint=NEW_CONVERSATION)]
    return []
