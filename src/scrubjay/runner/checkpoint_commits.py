"""What the message of a checkpoint's commit says, for people and for us; pure.

Whoever may write to the repository may write such a commit, so what it says is checked like any input.
"""

from __future__ import annotations

import re

import msgspec

from scrubjay.wire.checkpoints import Checkpoint

_FIELD = re.compile(r"^Scrubjay-([A-Za-z-]+): (.+)$", re.MULTILINE)
_NUMBERS = ("At", "Offset", "Wall", "Taken")
_WORDS = ("Pod", "Session", "Why")
_OPTIONAL = ("Head", "Branch", "Base")


def encode_message(name: str, checkpoint: Checkpoint) -> bytes:
    """The message of a checkpoint of the pod of that name."""
    lines = [f"Checkpoint {checkpoint.number} of pod {name}: {checkpoint.why}", ""]
    if checkpoint.left_out:
        lines += ["Left out:", *(f"- {each}" for each in checkpoint.left_out), ""]
    fields: dict[str, object] = {
        "Pod": checkpoint.pod,
        "Session": checkpoint.session,
        "Why": checkpoint.why,
        "At": checkpoint.at,
        "Offset": checkpoint.offset,
        "Wall": checkpoint.wall_us,
        "Taken": checkpoint.taken_us,
        "Head": checkpoint.head,
        "Branch": checkpoint.branch,
        "Base": checkpoint.base,
        "Unsteady": "yes" if checkpoint.unsteady else None,
    }
    lines += [f"Scrubjay-{field}: {value}" for field, value in fields.items() if value is not None]
    lines += [f"Scrubjay-Left-Out: {each}" for each in checkpoint.left_out]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def decode_commit(commit: str, data: bytes, *, pod: str, number: int) -> Checkpoint | None:
    """The checkpoint that a commit holds; None if it is not one of that pod."""
    header, _, message = data.decode("utf-8", "replace").partition("\n\n")
    tree = re.match(r"tree ([0-9a-f]{40,64})$", header, re.MULTILINE)
    found = _FIELD.findall(message)
    fields = dict(found)
    if tree is None or fields.get("Pod") != pod:
        return None
    try:
        return msgspec.convert(
            {
                **{name.lower(): fields[name] for name in _WORDS},
                **{name.lower(): fields.get(name) for name in _OPTIONAL},
                **{
                    {"Wall": "wall_us", "Taken": "taken_us"}.get(name, name.lower()): int(fields[name])
                    for name in _NUMBERS
                },
                "number": number,
                "commit": commit,
                "tree": tree[1],
                "unsteady": fields.get("Unsteady") == "yes",
                "left_out": [value for name, value in found if name == "Left-Out"],
            },
            Checkpoint,
        )
    except (KeyError, ValueError, msgspec.ValidationError):
        return None
