"""What a server process holds while it runs: each room provides its own part, and finds it by its class."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

Part = TypeVar("Part")


class ProcessState:
    """The database, the settings, and everything that is kept between requests, by class.

    Attributes
    ----------
    closing : what the rooms have to do when the process stops, last things first
    """

    def __init__(self) -> None:
        self._parts: dict[type[Any], Any] = {}
        self.closing = AsyncExitStack()

    def __setitem__(self, kind: type[Part], part: Part) -> None:
        self._parts[kind] = part

    def __getitem__(self, kind: type[Part]) -> Part:
        part: Part = self._parts[kind]
        return part

    def find(self, kind: type[Part]) -> Part | None:
        """Return a part that the settings may have left out."""
        return self._parts.get(kind)


def state_of(scope: Mapping[str, Any]) -> ProcessState:
    """Return what the process holds that answers a request, by the request's scope."""
    state: ProcessState = scope["app"].state.process
    return state
