"""Arguments that several tools take, described once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Pod = Annotated[str, Field(description="A pod's name, id, or a unique beginning of either.")]
At = Annotated[str | None, Field(description="An instant: 2026-11-15T02:14, 02:14:07, or 10m for ten minutes ago.")]
Reason = Annotated[str | None, Field(max_length=500, description="Why, in a sentence a person understands.")]
IdempotencyKey = Annotated[
    str | None,
    Field(
        min_length=1, max_length=200, description="The same call with the same key is carried out once within a day."
    ),
]
TimeoutS = Annotated[
    float, Field(ge=0, le=300, description="How long to block, in seconds; 0 returns at once. Ask again after it.")
]
SessionHandle = Annotated[
    str | None, Field(max_length=200, description="A session of yours; by default the one you are in.")
]
