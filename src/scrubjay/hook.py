"""``scrubjay hook SOURCE [EVENT]``: an agent tells the keeper of its pod what it is doing.

Agents run this from their own hooks, many times a turn, and wait for it. So it starts as the keeper does
(``python -I -S …/hook.py``), loads next to nothing, gives up after a second, prints nothing and never fails: an agent
that is in no pod, or whose keeper is gone, does not notice that there is a hook. What happened comes as JSON on
standard input, or as the last argument; where it does not say so itself, the argument names the EVENT.
"""

from __future__ import annotations

import _socket  # the C half of socket: the other one takes 8 ms to load, for names that nobody uses here
import fcntl
import json
import os
import select
import sys
import time

GIVE_UP_S = 1.0
INPUT_MAX_BYTES = 16 << 20  # what a tool is about to write comes along
MESSAGE_MAX = 4096  # characters. The keeper hides secrets before it cuts more off, so none is cut in half
TEXT_MAX = 512
SAID_MAX_BYTES = 128 << 10  # of a prompt or an answer; the keeper keeps half of it, for the same reason
WORD_MAX = 128  # of a source, and of the id of a conversation
FOLDER_VARIABLE = "SCRUBJAY_POD_FOLDER"  # as keeper.environment sets it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Json = dict[str, object]

# What agents call the same thing; the first that is there counts.
_FIELDS = {
    "event": ("hook_event_name", "event", "type"),
    "tool": ("tool_name", "toolName", "tool"),
    "kind": ("notification_type", "kind", "source", "reason", "trigger"),
    "message": ("message",),
    "error": ("error", "error_type"),
    "conversation": ("session_id", "sessionId", "sessionID", "thread-id", "conversation"),
    "transcript": ("transcript_path", "transcriptPath"),
    "turn": ("prompt_id", "turn_id"),
    "model": ("model",),
}
# What a person and an agent say to one another: in which event, by which name, and what it is.
_SAID = {"UserPromptSubmit": ("prompt", "prompt"), "Stop": ("last_assistant_message", "response")}


def main(arguments: list[str]) -> NoReturn:
    """Report an event, if there is anybody to report it to, and end the process with success."""
    try:
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder and arguments:
            report(folder, arguments[0], _read_event(arguments[1:]))
    finally:
        os._exit(0)  # whatever went wrong, without a word: it is none of the agent's business


def report(folder: str, source: str, told: Json) -> None:
    """Tell the keeper of a pod what an agent has told; OSError if it is gone or too busy to listen."""
    event = summarise(told)
    if "event" not in event or not _is_word(source):
        return
    until = time.monotonic() + GIVE_UP_S
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    keeper = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        keeper.settimeout(GIVE_UP_S)
        # Through the descriptor, because a socket's path may be no longer than 107 bytes.
        _patiently(lambda: keeper.connect(f"/proc/self/fd/{directory}/keeper.sock"), until)
        number = _take_number(directory, source, event.get("conversation"), until)
        said = find_said(told, event["event"])
        meta: Json = {"do": "event", "source": source, "seq": number, **event}
        # Not waiting for an answer, which would wait for the disk: what is sent arrives though we are gone by then.
        keeper.sendall(_frame(meta) if said is None else _frame(meta | {"says": said[0]}, said[1]))
    finally:
        keeper.close()
        os.close(directory)


def summarise(told: Json) -> Json:
    """What of an agent's report is worth keeping besides what was said: names, kinds and ids; not what it works on."""
    found: Json = {}
    for name, aliases in _FIELDS.items():
        value = next((told[alias] for alias in aliases if told.get(alias)), None)
        if isinstance(value, dict):
            value = _described(value)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, str):
            found[name] = value[: MESSAGE_MAX if name in ("message", "error") else TEXT_MAX]
    if told.get("is_interrupt") is True:
        found["kind"] = "interrupt"
    for name in ("conversation", "turn"):
        if not _is_word(found.get(name)) or told.get("agent_id"):  # those of a subagent are not the agent's
            found.pop(name, None)
    return found


def find_said(told: Json, event: object) -> tuple[str, bytes] | None:
    """The prompt or the answer that an event comes with, and which of them it is; not what a subagent says."""
    name, what = _SAID.get(str(event), ("", ""))
    text = told.get(name)
    if not isinstance(text, str) or not text.strip() or told.get("agent_id"):
        return None
    return what, text[:SAID_MAX_BYTES].encode("utf-8", "replace")[:SAID_MAX_BYTES]


def _described(value: Json) -> object:
    """An error that is an object, in words."""
    data = value.get("data")
    if isinstance(data, dict) and "message" in data:
        return data["message"]  # pyright: ignore[reportUnknownVariableType]
    return value.get("message") or value.get("name") or value.get("type")


def _is_word(value: object) -> bool:
    """Whether it is a word that is neither a path nor an option, wherever it is put in later."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= WORD_MAX
        and value.isascii()
        and value[0].isalnum()
        and all(letter.isalnum() or letter in "-_." for letter in value)
    )


def _read_event(arguments: list[str]) -> Json:
    last = arguments[-1] if arguments else ""
    if last.startswith("{"):
        return _decode(last.encode("utf-8", "replace"))
    told = _decode(_read_input())
    return told | {"hook_event_name": last} if last else told


def _read_input() -> bytes:
    """Standard input to its end. An agent's terminal is not read from: what is typed there is the agent's."""
    data = b""
    until = time.monotonic() + GIVE_UP_S
    while not os.isatty(0) and len(data) <= INPUT_MAX_BYTES:
        if not select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
            break
        more = os.read(0, 1 << 20)
        if not more:
            break
        data += more
    return data


def _decode(data: bytes) -> Json:
    told: object = json.loads(data) if data.strip() else None
    return told if isinstance(told, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _take_number(directory: int, source: str, conversation: object, until: float) -> int:
    """The next number of this source. What is said of the conversation is kept in the same order."""
    counter = os.open(f"hook-{source}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        _patiently(lambda: fcntl.flock(counter, fcntl.LOCK_EX | fcntl.LOCK_NB), until)
        number = int(os.pread(counter, 32, 0) or b"0") + 1
        os.pwrite(counter, b"%d" % number, 0)
        if conversation is not None:
            _keep_conversation(directory, conversation)
        return number
    finally:
        os.close(counter)


def _patiently(step: Callable[[], object], until: float) -> None:
    """Do something that others may be in the way of: whoever holds the lock, or as many as a keeper lets wait."""
    while True:
        try:
            step()
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.002)


def _keep_conversation(directory: int, conversation: object) -> None:
    """Keep the id, so that it is known without a runner; whoever reads it sees all of it or the one before."""
    data = json.dumps({"conversation": conversation}).encode()
    try:
        with open(os.open("conversation.json", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory), "rb") as file:
            if file.read() == data:
                return
    except FileNotFoundError:
        pass  # the first
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open("conversation.json.new", flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(data)
    os.replace("conversation.json.new", "conversation.json", src_dir_fd=directory, dst_dir_fd=directory)


def _frame(meta: Json, tail: bytes = b"") -> bytes:
    """A request, as docs/keeper-protocol.md says."""
    head = json.dumps(meta).encode()
    return (2 + len(head) + len(tail)).to_bytes(4, "little") + len(head).to_bytes(2, "little") + head + tail


if __name__ == "__main__":
    main(sys.argv[1:])
