"""A process that writes numbered facts to a catalog, many at once, and prints the number of each that is durable.

``numbered_writer PATH FIRST``: until it is killed. A number that could not be written is printed with a minus.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Connection

from scrubjay.errors import CatalogUnavailable
from scrubjay.store.events import append_event
from scrubjay.store.requests import remember
from scrubjay.store.sqlite import SqliteDatabase

WRITERS = 8


def write_number(connection: Connection, number: int) -> None:
    """An event and a fact that belong together."""
    append_event(connection, "test.wrote", wall_us=number, data={"number": number})
    remember(connection, "test", str(number), {"number": number}, wall_us=number)


async def main() -> None:
    """Write for ever."""
    database = await SqliteDatabase.open(Path(sys.argv[1]))
    numbers = count(int(sys.argv[2]))
    print("ready", flush=True)

    async def write() -> None:
        for number in numbers:
            try:
                await database.write(lambda connection, number=number: write_number(connection, number))
            except CatalogUnavailable:
                print(-number, flush=True)
            else:
                print(number, flush=True)

    await asyncio.gather(*(write() for _ in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main())
