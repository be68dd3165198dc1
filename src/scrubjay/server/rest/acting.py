"""What the routes about what is between agents have at hand: all of that, and who acts."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.guard import principal_of
from scrubjay.server.rest.context import instant_us
from scrubjay.server.tower import Tower


def _coordination(request: Request) -> Coordination:
    return cast(Coordination, request.app.state.coordination)


InCoordination = Annotated[Coordination, Depends(_coordination)]


def _actor(request: Request, coordination: InCoordination) -> Actor:
    return coordination.reception.actor(principal_of(request.scope))


TheActor = Annotated[Actor, Depends(_actor)]


def past_us(tower: Tower, raw: str | None) -> int | None:
    """The wall clock somebody means who speaks of the past; what is to come is as it is now, and None."""
    at_us = instant_us(tower, raw)
    return None if at_us is None or at_us >= tower.clock.wall_us() else at_us
