"""The keys that leave a pod to itself. Pure."""

from __future__ import annotations

# Ctrl-\ as terminals send it: plainly, and in the two encodings that agents switch on.
_DETACH = (b"\x1c", b"\x1b[92;5u", b"\x1b[27;5;92~")


class DetachKeys:
    """Watches what is typed for ctrl-\\ pressed twice in a row."""

    HOLD_S = 0.6  #: how long a first press is kept back before it counts as typed

    def __init__(self) -> None:
        self._held = b""

    @property
    def holding(self) -> bool:
        """Whether a first press is being kept back."""
        return bool(self._held)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What to pass on, and whether to detach."""
        for key in _DETACH:
            start = data.find(key)
            if start < 0:
                continue
            rest = data[start + len(key) :]
            if (self._held and start == 0) or rest.startswith(_DETACH):
                return data[:start], True
            if not rest:
                passed, self._held = self._held + data[:start], key
                return passed, False
        return self.release() + data, False

    def release(self) -> bytes:
        """The first press, to be passed on after all."""
        held, self._held = self._held, b""
        return held
