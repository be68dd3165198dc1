"""Keeps a topology up to date by the fleet's changes alone, as a page does. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from scrubjay.fleet.held_up import see_held_up
from scrubjay.fleet.parties import Party, kind_of
from scrubjay.fleet.process import OVER, describe_state
from scrubjay.tape.record import Json

_Node = Callable[[str], str | None]


class Follower:
    """What is known from a topology of everything and the changes after its number."""

    def __init__(self, topology: Json) -> None:
        self.number = cast(int, topology["number"])
        self._starving_after_s = cast(float, topology["starving_after_s"])
        nodes = cast("list[Json]", topology["nodes"])
        self._party_of = {str(node["id"]): str(node.get("party", node["id"])) for node in nodes}
        self._names = {
            str(node["party"]): str(node["name"]) for node in nodes if node["kind"] != "pod" and "party" in node
        }
        self._pods = {str(node["id"]): dict(node) for node in nodes if node["kind"] == "pod"}
        self._runners = {str(runner["id"]): dict(runner) for runner in cast("list[Json]", topology["runners"])}
        edges = cast("dict[str, list[Json]]", topology["edges"])
        self._bindings = {str(edge["id"]): self._between(edge) for edge in edges["bindings"]}
        self._waits = {str(edge["id"]): self._between(edge) for edge in edges["waits"]}
        self._flows = {
            (self._party_of[str(edge["from"])], self._party_of[str(edge["to"])]): (edge["count"], edge["last_us"])
            for edge in edges["messages"]
        }
        self._channels = {str(channel["id"]): self._of_parties(channel) for channel in _list(topology, "channels")}
        self._deadlocks = {
            str(deadlock["id"]): deadlock | {"nodes": [self._party_of[node] for node in _strings(deadlock, "nodes")]}
            for deadlock in _list(topology, "deadlocks")
        }

    # What a topology says of nodes is known of parties: the pod that acts for one may be another later.

    def _between(self, edge: Json) -> Json:
        return edge | {"from": self._party_of[str(edge["from"])], "to": self._party_of[str(edge["to"])]}

    def _of_parties(self, channel: Json) -> Json:
        # Who has no edge and is in a channel is no node, unless it is a pod; others are their own id.
        members = {
            self._party_of.get(str(member["node"]), str(member["node"])): str(member["name"])
            for member in _list(channel, "members")
        }
        self._names |= {party: name for party, name in members.items() if kind_of(Party(party)) != "pod"}
        return channel | {"members": list(members)}

    # Changes.

    def hear(self, change: Json) -> None:
        """Take one change; they come without a gap."""
        assert change["number"] == self.number + 1, (change["number"], self.number)
        self.number += 1
        kind, data, wall_us = str(change["kind"]), cast(Json, change["data"]), cast(int, change["wall_us"])
        match kind.partition("."):
            case "pod", _, _ if change["pod"] is not None:
                self._hear_of_pod(kind, str(change["pod"]), data, wall_us)
            case "runner", _, what:
                known = self._runners.get(str(data["runner"]), {})
                told = {name: data[name] for name in ("name", "host") if name in data}
                state = {"connected": what == "connected", "reason": data.get("reason"), "since_us": wall_us}
                self._runners[str(data["runner"])] = {"id": data["runner"], **known, **told, **state}
            case "binding", _, _:
                self._hear_of_binding(data, wall_us)
            case "wait", _, "began":
                self._hear_of_wait(data, wall_us)
            case "wait", _, "ended":
                self._waits.pop(str(data["wait"]), None)
            case "deadlock", _, "found":
                waits = [edge["wait"] for edge in _list(data, "edges")]
                found = {"id": data["deadlock"], "nodes": data["parties"], "waits": waits, "cut": data["cut"]}
                self._deadlocks[str(data["deadlock"])] = found | {"since_us": wall_us}
            case "deadlock", _, "ended":
                del self._deadlocks[str(data["deadlock"])]
            case "channel", _, _:
                self._hear_of_channel(kind, data, wall_us)
            case "message", _, "posted":
                self._hear_message(data, wall_us)
            case _:
                pass

    def _hear_of_pod(self, kind: str, pod: str, data: Json, wall_us: int) -> None:
        match kind:
            case "pod.started" | "pod.found" | "pod.imported":
                told = {name: data.get(name) for name in ("name", "agent", "runner", "branch", "created_us")}
                self._pods[pod] = {"id": pod, "kind": "pod", "party": data["session"], **told}
                self._pods[pod]["status"] = _status(cast(Json, data["status"]), wall_us)
            case "pod.changed":
                self._pods[pod] |= {name: data[name] for name in ("name", "branch") if name in data}
            case "pod.status" | "pod.exited" | "pod.lost":
                self._pods[pod]["status"] = _status(data, wall_us)
            case "pod.removed":
                del self._pods[pod]
            case _:
                pass

    def _hear_of_binding(self, data: Json, wall_us: int) -> None:
        self._meet(data, "initiator")
        self._meet(data, "target")
        self._bindings.pop(str(data["binding"]), None)  # one that changes is the newest
        if data["state"] in ("pending", "active"):
            self._bindings[str(data["binding"])] = {
                "id": data["binding"],
                "from": data["initiator"],
                "to": data["target"],
                **{name: data[name] for name in ("state", "granted", "pending")},
                "reason": data.get("reason"),
                "since_us": wall_us,
            }

    def _hear_of_wait(self, data: Json, wall_us: int) -> None:
        self._meet(data, "waiter")
        self._meet(data, "on")
        kind, key = str(data["kind"]), data.get("key")
        self._waits[str(data["wait"])] = {
            "id": data["wait"],
            "from": data["waiter"],
            "to": data.get("on", f"{kind}:{key}"),
            "kind": kind,
            "key": key if kind in ("artifact", "person") or key is None else str(key).removeprefix("inbox:"),
            "source": data["source"],
            "reason": data.get("reason"),
            "since_us": wall_us,
            "deadline_us": data.get("deadline_us"),
            "evidence": data.get("evidence", {}),
        }

    def _hear_of_channel(self, kind: str, data: Json, wall_us: int) -> None:
        id_ = str(data["channel"])
        if kind == "channel.joined":
            self._learn_name(str(data["party"]), str(data["name"]))
        if id_.startswith("inbox:"):
            return
        match kind:
            case "channel.created":
                told = {name: data[name] for name in ("name", "kind", "purpose")}
                nothing: Json = {"messages": 0, "last_us": None, "members": []}
                self._channels[id_] = {"id": id_, **told, "since_us": wall_us, **nothing}
            case "channel.joined":
                _strings(self._channels[id_], "members").append(str(data["party"]))
            case "channel.left":
                _strings(self._channels[id_], "members").remove(str(data["party"]))
            case _:
                assert kind == "channel.archived"
                del self._channels[id_]

    def _hear_message(self, data: Json, wall_us: int) -> None:
        if data["channel"] in self._channels:
            self._channels[str(data["channel"])] |= {"messages": data["seq"], "last_us": wall_us}
        author = str(data["author"])
        if author == "scrubjay":
            return
        self._learn_name(author, str(data["author_name"]))
        for party, name in zip(_strings(data, "mentions"), _strings(data, "mention_names"), strict=True):
            self._learn_name(party, name)
            count, _ = self._flows.get((author, party), (0, 0))
            self._flows[author, party] = cast(int, count) + 1, wall_us

    def _meet(self, data: Json, role: str) -> None:
        if role in data:
            self._learn_name(str(data[role]), str(data[f"{role}_name"]))

    def _learn_name(self, party: str, name: str) -> None:
        if kind_of(Party(party)) != "pod":
            self._names[party] = name

    # The topology.

    def draw(self, *, at_us: int, flow_s: float, everything: bool) -> Json:
        """As the server would."""
        acting = self._acting()

        def node(party: str) -> str | None:
            return acting.get(party) if kind_of(Party(party)) == "pod" else party

        def is_there(edge: Json) -> bool:
            return node(str(edge["from"])) is not None and node(str(edge["to"])) is not None

        waits = {id_: wait for id_, wait in self._waits.items() if is_there(wait)}
        held_up = see_held_up((id_, str(wait["from"]), str(wait["to"])) for id_, wait in waits.items())
        holds = {node(party): hold for party, hold in held_up.holds.items()}
        deadlocks = [each for each in self._deadlocks.values() if not waits.keys().isdisjoint(_strings(each, "waits"))]
        deadlocked = {node(party) for each in deadlocks for party in _strings(each, "nodes")}
        flows: list[Json] = [
            {"from": author, "to": to, "count": count, "last_us": last_us}
            for (author, to), (count, last_us) in self._flows.items()
        ]
        edges = {
            "bindings": [_placed(edge, node) for edge in self._bindings.values() if is_there(edge)],
            "waits": [_placed(self._wait(wait, at_us, deadlocks), node) for wait in waits.values()],
            "messages": [_placed(edge, node) for edge in flows if is_there(edge)],
        }
        joined = {str(edge[end]) for kind in edges.values() for edge in kind for end in ("from", "to")}
        nodes = [self._pod(pod) for pod in self._pods.values()]
        nodes = [pod for pod in nodes if everything or not pod["over"] or pod["id"] in joined]
        nodes += [self._other(id_) for id_ in joined - self._pods.keys()]
        for each in nodes:
            hold = holds.get(str(each["id"]))
            each["deadlocked"] = each["id"] in deadlocked
            each["root"] = hold is not None and hold.is_root
            each["waiters"], each["held_up"] = (hold.waiters, hold.held_up) if hold is not None else (0, 0)
        return {
            "number": self.number,
            "at_us": at_us,
            "flow_s": flow_s,
            "starving_after_s": self._starving_after_s,
            "nodes": nodes,
            "edges": edges,
            "channels": [self._channel(channel, node) for channel in self._channels.values()],
            "runners": list(self._runners.values()),
            "deadlocks": [each | {"nodes": [node(party) for party in _strings(each, "nodes")]} for each in deadlocks],
            "roots": [{"node": node(party), "held_up": held_up.holds[party].held_up} for party in held_up.roots],
            "longest_chain": list(held_up.longest),
        }

    def _acting(self) -> dict[str, str]:
        """The pod of each party: the newest of those that run, or else the newest."""
        pods = [self._pod(pod) for pod in self._pods.values()]
        pods.sort(key=lambda pod: (not pod["over"], cast(int, pod["created_us"]), str(pod["id"])))
        return {str(pod["party"]): str(pod["id"]) for pod in pods}

    def _pod(self, pod: Json) -> Json:
        runner = self._runners.get(str(pod["runner"]))
        over = cast(Json, pod["status"])["process"] in OVER
        return pod | {"reachable": runner is not None and runner["connected"], "over": over}

    def _other(self, id_: str) -> Json:
        for kind in ("artifact", "channel"):
            if id_.startswith(f"{kind}:"):
                thing = id_.removeprefix(f"{kind}:")
                return {"id": id_, "kind": kind, "name": thing if kind == "artifact" else self._channel_name(thing)}
        party = Party(id_)
        return {"id": id_, "kind": kind_of(party), "name": self._name(id_), "party": id_}

    def _name(self, party: str) -> str:
        if kind_of(Party(party)) == "pod":
            acting = self._acting().get(party)
            return str(self._pods[acting]["name"]) if acting is not None else party[:8]
        return self._names.get(party, party.partition(":")[2] or party)

    def _channel_name(self, channel: object) -> str | None:
        if isinstance(channel, str) and channel.startswith("inbox:"):
            return f"@{self._name(channel.removeprefix('inbox:'))}"
        known = self._channels.get(str(channel))
        return str(known["name"]) if known is not None else None

    def _wait(self, wait: Json, at_us: int, deadlocks: list[Json]) -> Json:
        evidence = cast(Json, wait["evidence"])
        told = {name: value for name, value in evidence.items() if name not in ("message", "replay")}
        asked = told.get("channel")
        if wait["kind"] == "channel":
            asked = wait["key"] if wait["key"] in self._channels else f"inbox:{wait['key']}"
        channel = self._channel_name(asked)
        if channel is not None and "seq" in told:
            told["message"] = f"{channel}#{told['seq']}"
        since_us = cast(int, wait["since_us"])
        acting = self._acting().get(str(wait["from"]))
        if "pod" in told and "offset" in told:
            told["replay"] = f"scrubjay replay {told['pod']} --at @{told['offset']}"
        elif acting is not None:
            told["replay"] = f"scrubjay replay {acting} --at {_iso(since_us)}"
        deadline_us, age_s = wait["deadline_us"], (at_us - since_us) / 1e6
        starving = at_us >= deadline_us if isinstance(deadline_us, int) else age_s >= self._starving_after_s
        return wait | {
            "channel": channel,
            "age_s": round(age_s, 3),
            "starving": starving,
            "evidence": told,
            "deadlocks": [each["id"] for each in deadlocks if wait["id"] in _strings(each, "waits")],
        }

    def _channel(self, channel: Json, node: _Node) -> Json:
        members = [{"node": node(party), "name": self._name(party)} for party in _strings(channel, "members")]
        return channel | {"members": members, "member_count": len(members)}


def _placed(edge: Json, node: _Node) -> Json:
    return edge | {"from": node(str(edge["from"])), "to": node(str(edge["to"]))}


def _status(told: Json, wall_us: int) -> Json:
    problem = cast(Json, told.get("evidence", {})).get("problem")
    process, activity, waiting_for = str(told["process"]), told.get("activity"), told.get("waiting_for")
    description = describe_state(
        process,
        cast("str | None", told.get("reason")),
        cast("int | None", told.get("exit_status")),
        cast("str | None", activity),
        cast("str | None", waiting_for),
        cast("str | None", problem),
    )
    return {
        "process": process,
        "activity": activity,
        "waiting_for": waiting_for,
        "description": description,
        "since_us": wall_us,
    }


def _iso(wall_us: int) -> str:
    return f"{datetime.fromtimestamp(wall_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{wall_us % 1_000_000:06d}Z"


def _list(data: Json, name: str) -> list[Json]:
    return cast("list[Json]", data[name])


def _strings(data: Json, name: str) -> list[str]:
    return cast("list[str]", data[name])


def sorted_topology(topology: Json) -> Json:
    """The same with what has no order in one."""
    edges = cast("dict[str, list[Json]]", topology["edges"])
    return topology | {
        "nodes": sorted(_list(topology, "nodes"), key=lambda node: str(node["id"])),
        "channels": sorted(_list(topology, "channels"), key=lambda channel: str(channel["id"])),
        "runners": sorted(_list(topology, "runners"), key=lambda runner: str(runner["id"])),
        "edges": edges | {"messages": sorted(edges["messages"], key=lambda edge: (str(edge["from"]), str(edge["to"])))},
    }
