"""When a person should hear of a pod, and in which words.

A Watch is fed the events of the fleet and what agents call out through their terminals, and answers with notices. It
does not know what has been told before: a notice's key says what counts as the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from scrubjay.fleet.process import OVER, SURE
from scrubjay.ids import PodId
from scrubjay.settings import NoticeKind

BODY_MAX = 500  # characters; a phone shows fewer
TITLE_MAX = 120
_NAMES_MAX = 5  # pods that are named in one message about many
# Chats would ring everybody, or make links of what an agent wrote.
_RINGS = re.compile(r"(?<=[@<])(?=[!@#&\w])")
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_WAITS = {"person:permission": "asks for a permission", "person:question": "asks a question"}

Call = Literal["bell", "notification"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should hear of one pod, or of an agent outside pods."""

    kind: NoticeKind
    pod: PodId | None
    name: str
    what: str  #: tells notices of the same kind apart
    body: str

    @property
    def key(self) -> str:
        """The same for what need not be told twice."""
        return f"{self.pod or self.name}:{self.kind}:{self.what}"


@dataclass(frozen=True, slots=True)
class Message:
    """Notices in words, to be sent as one."""

    kind: NoticeKind
    title: str
    body: str


@dataclass(slots=True)
class _Seen:
    """What is known of a pod."""

    name: str
    since_us: int  #: when it was started
    process: str = "starting"
    activity: str | None = None
    waiting_for: str | None = None
    told: bool = False  #: whether what it does was told by more than its output
    working_since_us: int | None = None
    problem: str | None = None
    called: bool = False  #: it has called, and nobody has come to its keyboard since


class Watch:
    """Looks at all pods and says what is worth a notice."""

    def __init__(self, on: Collection[NoticeKind], *, done_after_us: int, mask: Callable[[str], str]) -> None:
        self._on = frozenset(on)
        self._done_after_us = done_after_us
        self._mask = mask  #: hides secrets; what agents write goes through it
        self._pods: dict[PodId, _Seen] = {}
        self._asked: set[str] = set()  #: waits for what a person was asked in a message

    def learn(self, pod: PodId, name: str, status: Mapping[str, object], *, created_us: int, since_us: int) -> None:
        """Take a pod as it is, without a word; its status holds since then."""
        seen = self._pods[pod] = _Seen(name, created_us)
        self._take(seen, status, since_us)

    def observe(self, kind: str, pod: PodId | None, data: Mapping[str, object], *, wall_us: int) -> Notice | None:
        """An event of the fleet."""
        match kind:
            case "deadlock.found":
                return self._judge_deadlock(pod, data)
            case "wait.began" | "wait.starved" | "wait.ended":
                return self._judge_wait(kind, pod, data, wall_us)
            case _:
                return None if pod is None else self._observe_pod(kind, pod, data, wall_us)

    def _observe_pod(self, kind: str, pod: PodId, data: Mapping[str, object], wall_us: int) -> Notice | None:
        match kind:
            case "pod.started":
                # It may have ended before anybody heard of it.
                seen = self._pods[pod] = _Seen(_text(data, "name") or pod[:8], wall_us)
                return self._judge(pod, seen, _mapping(data, "status"), wall_us)
            case "pod.found" | "pod.imported":
                created = data.get("created_us")
                self.learn(
                    pod,
                    _text(data, "name") or pod[:8],
                    _mapping(data, "status"),
                    created_us=created if isinstance(created, int) else wall_us,
                    since_us=wall_us,
                )
            case "pod.changed":
                if pod in self._pods:
                    self._pods[pod].name = _text(data, "name") or self._pods[pod].name
            case "pod.status" | "pod.exited" | "pod.lost":
                return self._judge(pod, self._pods.setdefault(pod, _Seen(pod[:8], wall_us)), data, wall_us)
            case "pod.removed":
                self._pods.pop(pod, None)
            case "keyboard.taken":
                if pod in self._pods:
                    self._pods[pod].called = False
            case _:
                pass
        return None

    def called(self, pod: PodId, call: Call, title: str, body: str, *, attended: bool) -> Notice | None:
        """An agent rang its bell or sent a notification, with or without somebody looking at it."""
        seen = self._pods.get(pod)
        # Where it is known what an agent does, that says more than its bell.
        if seen is None or attended or seen.process in OVER or seen.told:
            return None
        seen.called = True
        said = ": ".join(part for part in (_plain(title), _plain(body)) if part)
        return self._notice(
            "needs_you", pod, seen.name, "call", said or ("rang the bell" if call == "bell" else "calls")
        )

    def holds(self, notice: Notice) -> bool:
        """Whether what was said of a pod is still so."""
        if notice.what in self._asked:
            return True
        seen = self._pods.get(notice.pod) if notice.pod is not None else None
        if seen is None or seen.process in OVER:
            return False
        match notice.what:
            case "call":
                return seen.called
            case "paused":
                return seen.process == "paused"
            case _:
                return notice.what == seen.waiting_for

    def _judge(self, pod: PodId, seen: _Seen, status: Mapping[str, object], wall_us: int) -> Notice | None:
        process, activity, waiting_for, problem = seen.process, seen.activity, seen.waiting_for, seen.problem
        began_us = seen.working_since_us
        self._take(seen, status, wall_us)
        if process in OVER:
            return None
        reason = _text(status, "reason")
        if seen.process == "lost":
            return self._notice("failed", pod, seen.name, "lost", f"lost: {reason or 'its keeper is gone'}")
        if seen.process == "exited":
            # One that was idle had told of its work when that was done.
            since_us = seen.since_us if began_us is None else began_us
            return self._judge_end(pod, seen, status, None if activity == "idle" else since_us, wall_us)
        if seen.process == "paused" and process != "paused":
            return self._notice("needs_you", pod, seen.name, "paused", f"sleeps, for it cannot be recorded: {reason}")
        if seen.waiting_for is not None and seen.waiting_for.startswith("person:") and seen.waiting_for != waiting_for:
            said = _WAITS.get(seen.waiting_for, "waits for you")
            detail = _text(_mapping(status, "evidence"), "detail")
            return self._notice("needs_you", pod, seen.name, seen.waiting_for, f"{said}: {detail}" if detail else said)
        if seen.problem is not None and seen.problem != problem:
            return self._notice("failed", pod, seen.name, "stopped", f"stopped: {seen.problem}")
        if seen.activity == "idle" and began_us is not None and wall_us - began_us >= self._done_after_us:
            return self._notice("done", pod, seen.name, "turn", f"finished after {_span(wall_us - began_us)} of work")
        return None

    def _judge_end(
        self, pod: PodId, seen: _Seen, status: Mapping[str, object], working_since_us: int | None, wall_us: int
    ) -> Notice | None:
        stopped_by = _text(_mapping(status, "evidence"), "stopped_by")
        # The keeper stops its agent when the machine shuts down, which is nobody's wish for this pod.
        if stopped_by is not None and stopped_by != "keeper":
            return None
        exit_status = status.get("exit_status")
        lived = _span(wall_us - seen.since_us)
        if isinstance(exit_status, int) and exit_status != 0:
            return self._notice("failed", pod, seen.name, "exit", f"ended with status {exit_status} after {lived}")
        if exit_status == 0 and working_since_us is not None and wall_us - working_since_us >= self._done_after_us:
            return self._notice("done", pod, seen.name, "exit", f"ended after {lived}")
        return None

    def _judge_deadlock(self, pod: PodId | None, data: Mapping[str, object]) -> Notice | None:
        listed = data.get("names")
        names = [str(name) for name in cast("list[object]", listed)] if isinstance(listed, list) else []
        circle = " waits for ".join([*names, *names[:1]])
        name = self._name_of(pod, names[0] if names else None)
        hint = f"see: scrubjay why {name}; cut it: scrubjay why {name} --cut"
        if pod is None:  # they are agents outside pods, all of them
            hint = "see it, and what to cut: scrubjay waits"
        return self._notice("deadlock", pod, name, str(data.get("deadlock")), f"{circle}; {hint}")

    def _judge_wait(self, kind: str, pod: PodId | None, data: Mapping[str, object], wall_us: int) -> Notice | None:
        wait, on, reason = str(data.get("wait")), _text(data, "on_name"), _text(data, "reason")
        name, because = self._name_of(pod, _text(data, "waiter_name")), f": {reason}" if reason else ""
        if kind == "wait.starved":
            since_us = data.get("since_us")
            waited = _span(wall_us - since_us) if isinstance(since_us, int) else "long"
            words = f"has waited {waited}" + (f" for {on}" if on else "") + because
            return self._notice("starving", pod, name, wait, words)
        # A prompt is told of by what its pod does.
        if kind == "wait.began" and data.get("kind") == "person" and data.get("source") != "prompt":
            self._asked.add(wait)
            return self._notice("needs_you", pod, name, wait, f"asks {on}{because}")
        self._asked.discard(wait)
        return None

    def _name_of(self, pod: PodId | None, told: str | None) -> str:
        """What a pod is called, or what an agent outside pods was in an event."""
        seen = self._pods.get(pod) if pod is not None else None
        return seen.name if seen is not None else told or "somebody"

    @staticmethod
    def _take(seen: _Seen, status: Mapping[str, object], wall_us: int) -> None:
        seen.process = _text(status, "process") or seen.process
        seen.activity, seen.waiting_for = _text(status, "activity"), _text(status, "waiting_for")
        seen.problem = _text(_mapping(status, "evidence"), "problem")
        confidence = status.get("confidence")
        unsure = isinstance(confidence, int | float) and confidence < SURE
        seen.told = seen.activity is not None and not unsure
        if seen.activity == "executing" and seen.working_since_us is None:
            seen.working_since_us = wall_us
        elif seen.activity == "idle":
            seen.working_since_us = None  # and not while it waits: that is a part of the same work

    def _notice(self, kind: NoticeKind, pod: PodId | None, name: str, what: str, body: str) -> Notice | None:
        if kind not in self._on:
            return None
        # Hidden after what does not show is gone, or that would tear a secret apart and let it through.
        return Notice(kind, pod, clean(name), what, _cut(_unring(self._mask(_plain(body))), BODY_MAX))


def fold(notices: Sequence[Notice], *, most: int) -> list[Message]:
    """A message for each notice, or one for all of a kind that are more than ``most``."""
    messages: list[Message] = []
    for kind in _ONE:
        those = [notice for notice in notices if notice.kind == kind]
        if len(those) <= most:
            messages += [Message(kind, _cut(f"{one.name} {_ONE[kind]}", TITLE_MAX), one.body) for one in those]
            continue
        names = list(dict.fromkeys(notice.name for notice in those))
        shown = ", ".join(names[:_NAMES_MAX]) + (", …" if len(names) > _NAMES_MAX else "")
        title = f"{len(names)} pods {_MANY[kind]}: {shown}" if len(names) > 1 else f"{shown} {_ONE[kind]}"
        body = "\n".join(f"{notice.name}: {notice.body}" for notice in those)
        messages.append(Message(kind, _cut(title, TITLE_MAX), _cut(body, BODY_MAX)))
    return messages


_ONE: dict[NoticeKind, str] = {
    "deadlock": "is in a deadlock",
    "needs_you": "needs you",
    "failed": "failed",
    "starving": "waits for too long",
    "done": "is done",
}
_MANY: dict[NoticeKind, str] = {
    "deadlock": "are in deadlocks",
    "needs_you": "need you",
    "failed": "failed",
    "starving": "wait for too long",
    "done": "are done",
}


def clean(text: str) -> str:
    """One line of plain text: nothing that acts on a terminal, turns writing around or rings everybody in a chat."""
    return _unring(_plain(text))


def _plain(text: str) -> str:
    shown = " ".join(_SEQUENCE.sub("", text).split())
    return "".join(letter for letter in shown if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def _unring(text: str) -> str:
    return _RINGS.sub("\N{WORD JOINER}", text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(data: Mapping[str, object], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) and value else None


def _mapping(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = data.get(name)
    return cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}


def _span(us: int) -> str:
    seconds = max(0, us) // 1_000_000
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
