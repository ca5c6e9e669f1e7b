"""Where answers are kept: what was asked for longest ago is forgotten first, and one network's not at others' cost."""

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

_SHARES = 4
"""What a network asked for first may take one part of the bytes in so many."""


class _Entry(NamedTuple, Generic[Item]):
    item: Item
    network: str
    size: int


class Shelf(Generic[Item]):
    """Things of at most `most` bytes together, and a quarter of them of one network."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, _Entry[Item]] = OrderedDict()
        self._sizes: Counter[str] = Counter()

    def get(self, key: Hashable) -> Item | None:
        """Return the thing, which is now the one asked for last."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.item

    def put(self, key: Hashable, item: Item, size: int, network: str) -> bool:
        """Keep a thing that this network asked for, unless it takes more than a network may; return whether it is."""
        if key in self._entries:
            network = self._drop(key).network
        if size > self._most // _SHARES:
            return False
        self._entries[key] = _Entry(item, network, size)
        self._sizes[network] += size
        while self._sizes[network] > self._most // _SHARES:
            self._drop(next(key for key, entry in self._entries.items() if entry.network == network))
        while self._sizes.total() > self._most:
            self._drop(next(iter(self._entries)))
        return True

    def _drop(self, key: Hashable) -> _Entry[Item]:
        entry = self._entries.pop(key)
        self._sizes[entry.network] -= entry.size
        if not self._sizes[entry.network]:
            del self._sizes[entry.network]
        return entry
