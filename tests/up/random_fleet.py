"""A fleet in which anything happens between agents, at random, as fast as the catalog takes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import cast

from msgspec import structs

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.access import Principal
from scrubjay.fleet.process import Activity
from scrubjay.ids import PodId, RunnerId, new_pod_id, new_runner_id, new_session_id
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.channels import Post
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.coordination.waits import WaitFor
from scrubjay.server.credentials import Credentials
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PodReport, PodStatus
from tests.support.linked_runner import LinkedRunner

PODS_MAX = 9
RUNNERS = 2
ANN = Principal("local", "operator", "ann")
_ARTIFACTS = ("api.json", 'a "quoted" key', "Schlüssel")
_REASONS = ("needs the schema", "waits | for <b>it</b>", "sa\x00id \ue000 so", None)
_STATES: tuple[tuple[Activity, str | None, str | None], ...] = (
    ("executing", None, None),
    ("idle", None, None),
    ("idle", None, "rate limit"),
    ("waiting", "person:permission", None),
    ("waiting", "person:question", None),
)


class RandomFleet:
    """Pods that exist only in reports, outside agents and a person; each step is one thing that somebody does."""

    def __init__(self, coordination: Coordination, seed: int) -> None:
        self._coordination, self._tower, self._rng = coordination, coordination.tower, Random(seed)
        self._seed = seed  #: which all names have in them: there may be other towns
        self._plaza = f"plaza-{seed}"  #: where everybody knows everybody
        self._runners: dict[RunnerId, LinkedRunner] = {}
        self._reports: dict[PodId, PodReport] = {}
        self._at: dict[PodId, RunnerId] = {}
        self._away: RunnerId | None = None  #: the machine that is not connected
        self._agents: list[Principal] = []
        self._made = 0

    async def open(self) -> None:
        """Connect the machines, with a few pods, and two agents outside pods."""
        for _ in range(RUNNERS):
            await self._connect(new_runner_id())
        credentials = Credentials(self._tower.database, self._tower.clock)
        for name in (f"outsider-{self._seed}", f"pen <pal> {self._seed}"):
            made = await credentials.create_token("agent", name=name)
            self._agents.append(Principal(f"token:{made.row.id}", "agent", name))
        person = self._coordination.reception.actor(ANN)
        await self._coordination.channels.create(person, self._plaza, members=[agent.name for agent in self._agents])
        for _ in range(5):
            await self._start()

    async def close(self) -> None:
        """Let the machines leave."""
        for linked in self._runners.values():
            await linked.leave()

    async def step(self) -> None:
        """Let something happen; what is refused has not."""
        steps: Sequence[tuple[int, Callable[[], Awaitable[object]]]] = (
            (3, self._start),
            (8, self._change_status),
            (1, self._end),
            (1, self._remove),
            (2, self._change_facts),
            (1, self._come_or_go),
            (8, self._bind),
            (3, self._answer),
            (2, self._unbind),
            (2, self._make_channel),
            (3, self._join_or_leave),
            (1, self._archive),
            (8, self._post),
            (16, self._wait),
            (1, self._cancel),
            (2, self._hand_over),
        )
        do = self._rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
        with suppress(ScrubjayError, IndexError):  # of IndexError: there is nobody to do it
            await do()

    # Machines and pods.

    async def _connect(self, runner: RunnerId) -> None:
        linked = self._runners[runner] = LinkedRunner(self._tower, runner)
        await linked.introduce(*(report for pod, report in self._reports.items() if self._at[pod] == runner))

    async def _come_or_go(self) -> None:
        if self._away is not None:
            runner, self._away = self._away, None
            await self._connect(runner)
            return
        self._away = self._rng.choice(list(self._runners))
        await self._runners.pop(self._away).leave()

    async def _start(self) -> None:
        if len(self._there(alive=True)) >= PODS_MAX:
            return
        ended = self._there(alive=False)
        again = self._rng.choice(ended) if ended and self._rng.random() < 0.5 else None
        self._made += 1
        pod = new_pod_id()
        self._at[pod] = self._rng.choice(list(self._runners))
        report = PodReport(
            id=pod,
            name=again.name if again is not None else f"pod-{self._seed}-{self._made}",
            session=again.session if again is not None else new_session_id(),
            argv=("agent",),
            cwd="/",
            cols=80,
            rows=24,
            created_us=self._tower.clock.wall_us(),
            process="running",
            since_us=self._tower.clock.wall_us(),
            agent=self._rng.choice(["claude", None]),
            branch=self._rng.choice(["main", "caf\udce9", None]),
        )
        await self._report(report)
        await self._coordination.channels.join(self._coordination.reception.actor(ANN), self._plaza, members=[pod])

    async def _report(self, report: PodReport) -> None:
        pod = PodId(report.id)
        self._reports[pod] = report
        await self._tower.take_reports(self._runners[self._at[pod]].peer, [report])

    def _there(self, *, alive: bool) -> list[PodReport]:
        """Pods of machines that can tell of them."""
        return [
            report
            for pod, report in self._reports.items()
            if self._at[pod] != self._away and (report.process == "running") == alive
        ]

    async def _change_status(self) -> None:
        report = self._rng.choice(self._there(alive=True))
        activity, waiting_for, problem = self._rng.choice(_STATES)
        now_us = self._tower.clock.wall_us()
        status = PodStatus(
            activity=activity,
            waiting_for=waiting_for,
            problem=problem,
            detail="may I?",
            confidence=0.9,
            at=1,
            since_us=now_us,
            offset=self._rng.randrange(1000),
        )
        await self._report(structs.replace(report, status=status))

    async def _end(self) -> None:
        report = self._rng.choice(self._there(alive=True))
        how = self._rng.choice([("exited", None, 1), ("lost", "keeper killed", None)])
        process, reason, exit_status = how
        await self._report(
            structs.replace(report, process=process, reason=reason, exit_status=exit_status, status=None, complete=True)
        )

    async def _remove(self) -> None:
        pod = PodId(self._rng.choice(self._there(alive=False)).id)
        del self._reports[pod]
        await self._tower.take_reports(self._runners[self._at[pod]].peer, [pod])

    async def _change_facts(self) -> None:
        report = self._rng.choice(self._there(alive=True))
        branch = self._rng.choice(["main", "fix", "caf\udce9", None])
        name = f"{report.name}x" if self._rng.random() < 0.3 else report.name
        await self._report(structs.replace(report, branch=branch, name=name))

    # Who acts.

    def _somebody(self) -> Actor:
        """An agent of a pod that runs, or one outside, or a person."""
        reception = self._coordination.reception
        if self._rng.random() < 0.15:
            return reception.actor(ANN)
        return self._an_agent()

    def _an_agent(self) -> Actor:
        alive = self._there(alive=True)
        if not alive or self._rng.random() < 0.15:
            return self._coordination.reception.actor(self._rng.choice(self._agents))
        report = self._rng.choice(alive)
        return self._coordination.reception.actor(Principal("token:x", "pod", report.name, PodId(report.id)))

    def _whom(self) -> str:
        """The id of a pod, or seldom the name of an agent outside."""
        if self._rng.random() < 0.15:
            return self._rng.choice(self._agents).name
        return self._rng.choice(list(self._reports))

    # What they do.

    async def _bind(self) -> None:
        scopes = self._rng.choice([["terminal:read"], ["terminal:write"], ["terminal:read", "terminal:write"]])
        person, reason = self._coordination.reception.actor(ANN), self._rng.choice(_REASONS)
        initiator = self._whom()
        await self._coordination.bindings.request(
            person, initiator=initiator, target=self._whom(), scopes=scopes, reason=reason
        )

    async def _answer(self) -> None:
        person, accept = self._coordination.reception.actor(ANN), self._rng.random() < 0.7
        for binding in await self._coordination.bindings.list(person):
            if binding["pending"] and self._rng.random() < 0.5:
                await self._coordination.bindings.answer(person, str(binding["id"]), accept=accept)

    async def _unbind(self) -> None:
        person = self._coordination.reception.actor(ANN)
        alive = await self._coordination.bindings.list(person)
        if alive:
            await self._coordination.bindings.unbind(person, str(self._rng.choice(alive)["id"]))

    async def _make_channel(self) -> None:
        self._made += 1
        await self._coordination.channels.create(
            self._coordination.reception.actor(ANN),
            f"channel-{self._seed}-{self._made}",
            purpose=self._rng.choice(["to | talk", None]),
            private=self._rng.random() < 0.3,
            members=[self._whom() for _ in range(3)],
        )

    async def _a_channel(self) -> str:
        person = self._coordination.reception.actor(ANN)
        found = [each for each in await self._coordination.channels.list(person) if each["name"] != self._plaza]
        return str(self._rng.choice(found)["name"]) if found else "none"

    async def _join_or_leave(self) -> None:
        person, name, whom = self._coordination.reception.actor(ANN), await self._a_channel(), self._whom()
        if self._rng.random() < 0.7:
            await self._coordination.channels.join(person, name, members=[whom])
        else:
            await self._coordination.channels.leave(person, name, member=whom)

    async def _archive(self) -> None:
        await self._coordination.channels.archive(self._coordination.reception.actor(ANN), await self._a_channel())

    async def _post(self) -> None:
        text = self._rng.choice(["done", "is it ready?", "@everyone look"])
        if self._rng.random() < 0.4:
            post = Post(text=text, to=self._whom(), expects_reply=self._rng.random() < 0.3)
        else:
            post = Post(
                text=text,
                channel=await self._a_channel(),
                mentions=[self._whom() for _ in range(self._rng.randrange(3))],
                expects_reply=self._rng.random() < 0.3,
            )
        await self._coordination.channels.post(self._somebody(), post)

    async def _wait(self) -> None:
        """Wait for somebody or something."""
        agent = self._an_agent()
        wanted = self._rng.choice(
            [
                WaitFor(pod=self._whom()),
                WaitFor(pod=self._whom()),
                WaitFor(pod=self._whom()),
                WaitFor(artifact=self._rng.choice(_ARTIFACTS)),
                WaitFor(artifact=self._rng.choice(_ARTIFACTS), pod=self._whom()),
                WaitFor(channel=await self._a_channel()),
                WaitFor(channel="inbox"),
            ]
        )
        deadline_us = self._tower.clock.wall_us() + self._rng.randrange(1, 60_000_000)
        wanted = WaitFor(
            pod=wanted.pod,
            artifact=wanted.artifact,
            channel=wanted.channel,
            reason=self._rng.choice(_REASONS),
            deadline_us=deadline_us if self._rng.random() < 0.4 else None,
        )
        await self._coordination.waits.wait_for(agent, wanted, timeout_s=0)

    async def _cancel(self) -> None:
        person = self._coordination.reception.actor(ANN)
        waits = cast("list[Json]", (await self._coordination.waits.list(person))["waits"])
        if waits:
            await self._coordination.waits.cancel(person, str(self._rng.choice(waits)["id"]))

    async def _hand_over(self) -> None:
        to = self._whom() if self._rng.random() < 0.5 else None
        await self._coordination.handoffs.offer(
            self._an_agent(), note="take it", artifact=self._rng.choice(_ARTIFACTS), to=to
        )
