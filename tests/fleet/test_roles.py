"""What each role may do."""

from __future__ import annotations

from typing import get_args

from scrubjay.fleet.access import Action, Principal, Role, Scope, may, scope_for
from scrubjay.ids import new_pod_id
from tests.support.tables import every_row

_POD, _OTHER = new_pod_id(), new_pod_id()
_EVERYWHERE: dict[Role, set[Action]] = {
    "operator": {"know self", "look", "type", "control", "run", "admit", "coordinate"},
    "viewer": {"know self", "look", "coordinate"},
    "runner": {"know self", "join"},
    "pod": {"know self", "coordinate"},
    "agent": {"know self", "coordinate"},
}
_GRANTS: dict[Scope, Action] = {"terminal:read": "look", "terminal:write": "type"}


@every_row("role", get_args(Role))
@every_row("action", get_args(Action))
def test_a_role_may_do_what_is_its_own_and_nothing_else(role: Role, action: Action) -> None:
    principal = Principal("token:x", role, "x", _POD if role == "pod" else None)
    everywhere = action in _EVERYWHERE[role]

    assert may(principal, action) is everywhere
    assert may(principal, action, _OTHER) is everywhere
    assert may(principal, action, _POD) is (everywhere or (role == "pod" and action == "look"))


def test_a_pod_without_a_pod_may_look_at_nothing() -> None:
    assert not may(Principal("token:x", "pod", "x"), "look", _POD)
    assert not may(Principal("token:x", "pod", "x"), "look")


@every_row("role", get_args(Role))
@every_row("scope", get_args(Scope))
def test_a_scope_lets_agents_look_or_type_and_lets_people_do_nothing(role: Role, scope: Scope) -> None:
    principal = Principal("token:x", role, "x", _POD if role == "pod" else None)
    granted = {_GRANTS[scope]} if role in ("pod", "agent") else set[Action]()

    for action in get_args(Action):
        assert may(principal, action, _OTHER, scopes={scope}) is (action in _EVERYWHERE[role] | granted), action
        assert may(principal, action, scopes={scope}) is (action in _EVERYWHERE[role]), action


@every_row("role", get_args(Role))
def test_whoever_lacks_a_scope_is_told_which_one_unless_none_would_help(role: Role) -> None:
    told = {action: scope_for(role, action) for action in get_args(Action)}

    grants = {action: scope for scope, action in _GRANTS.items()} if role in ("pod", "agent") else {}
    assert {action: scope for action, scope in told.items() if scope is not None} == grants
