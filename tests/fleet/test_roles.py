"""What each role may do."""

from __future__ import annotations

from typing import get_args

import pytest

from scrubjay.fleet.access import Action, Principal, Role, may
from scrubjay.ids import new_pod_id

_POD, _OTHER = new_pod_id(), new_pod_id()
_EVERYWHERE: dict[Role, set[Action]] = {
    "operator": {"know self", "look", "type", "run", "admit"},
    "viewer": {"know self", "look"},
    "runner": {"know self", "join"},
    "pod": {"know self"},
    "agent": {"know self"},
}


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize("action", get_args(Action))
def test_a_role_may_do_what_is_its_own_and_nothing_else(role: Role, action: Action) -> None:
    principal = Principal("token:x", role, "x", _POD if role == "pod" else None)
    everywhere = action in _EVERYWHERE[role]

    assert may(principal, action) is everywhere
    assert may(principal, action, _OTHER) is everywhere
    assert may(principal, action, _POD) is (everywhere or (role == "pod" and action == "look"))


def test_a_pod_without_a_pod_may_look_at_nothing() -> None:
    assert not may(Principal("token:x", "pod", "x"), "look", _POD)
    assert not may(Principal("token:x", "pod", "x"), "look")
