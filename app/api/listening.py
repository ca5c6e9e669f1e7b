"""Answers that stay open and tell of new snapshots."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends

from app.api.dependencies import ProcessServices

RECONNECT_MILLISECONDS = 5000


async def _take_place(services: ProcessServices) -> AsyncIterator[None]:
    with services.snapshot_events.place():
        yield


ListenerPlace = Annotated[None, Depends(_take_place)]
"""Holds the place of one listener until the answer ends; without a free place the request gets 503."""
