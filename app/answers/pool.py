"""The prompts that battles can show, as this process remembers them, and which one comes next."""

import threading
import time
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from app.answers.queries import pool_version, read_pool
from app.database.engine import Database
from app.rating.sampling.pair_weights import Random

Pair = tuple[int, int]
"""Two models, the lower number first."""
Seen = Mapping[int, Collection[Pair]]
"""Number of a prompt → the pairs whose answers to it an annotator was shown."""

_CHECK_SECONDS = 1.0
_REREAD_SECONDS = 60.0
_FEWEST = 2
_TRIES = 20
_SAMPLED = 8
_KEPT_OFFERS = 64


@dataclass(frozen=True)
class PooledPrompt:
    """A prompt with answers of two models or more.

    Attributes
    ----------
    named : its category and its language, without those that it lacks
    answers : number of a model → number of its answer
    """

    id: int
    named: Mapping[str, str]
    answers: Mapping[int, int]

    def tags(self, declared: Collection[str]) -> list[str]:
        """Return the tags of its votes: category and language, and those declared of dimensions, as `language=en`."""
        categories = (f"{name}={value}" for name, value in self.named.items())
        return [*self.named.values(), *(tag for tag in categories if tag in declared)]


@dataclass(frozen=True)
class OfferedPrompt:
    """A prompt that a battle can show, with the numbers of the models that it may show, in order."""

    prompt: PooledPrompt
    model_ids: tuple[int, ...]

    def has_more(self, seen: Collection[Pair]) -> bool:
        """Whether an annotator who has seen these pairs has not seen all."""
        size = len(self.model_ids)
        known = set(self.model_ids)
        return sum(one in known and other in known for one, other in seen) < size * (size - 1) // 2


class Offer(Sequence[OfferedPrompt]):
    """The prompts to which two of some models have answers, made one by one: a thousand offers may be alive at once."""

    def __init__(self, prompts: Sequence[PooledPrompt], models: Collection[int], category: str | None) -> None:
        self._prompts = prompts
        self._wanted = wanted = frozenset(models)
        self._places = array(
            "I",
            (
                place
                for place, one in enumerate(prompts)
                if category is None or one.named.get("category") == category
                if sum(model in wanted for model in one.answers) >= _FEWEST
            ),
        )

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: int) -> OfferedPrompt:  # type: ignore[override]  # no part of it is asked for
        one = self._prompts[self._places[place]]
        return OfferedPrompt(one, tuple(model for model in one.answers if model in self._wanted))


class AnswerPool:
    """The prompts of one moment.

    What it offers for the last lists of candidates and categories is kept, 64 times the prompts at most. Belongs to
    one thread.
    """

    def __init__(self, prompts: Sequence[PooledPrompt]) -> None:
        self._prompts = prompts
        self._offered: LRUCache[Any, Offer] = LRUCache(
            _KEPT_OFFERS * (len(prompts) + 1), getsizeof=lambda offer: len(offer) + 1
        )

    @property
    def kept(self) -> int:
        """The prompts of all offers that are kept."""
        return sum(map(len, self._offered.values()))

    def offer(self, models: tuple[int, ...], category: str | None) -> Offer:
        """Return the prompts of a category, None for all, to which two of these models have answers."""
        key = (models, category)
        found = self._offered.get(key)
        if found is None:
            found = self._offered[key] = Offer(self._prompts, models, category)
        return found


def sample_prompts(random: Random, offered: Sequence[OfferedPrompt]) -> Sequence[OfferedPrompt]:
    """Return some of the prompts, so that what an annotator has seen of them is read quickly."""
    if len(offered) <= _SAMPLED:
        return offered
    places = {int(random.random() * len(offered)) for _ in range(_SAMPLED)}
    return [offered[place] for place in places]


def choose_prompt(random: Random, offered: Sequence[OfferedPrompt], seen: Seen) -> OfferedPrompt | None:
    """Choose one of the prompts that the annotator has seen least; None where every pair of each was seen.

    The models' scores and earlier votes have no part in it, so it says nothing about the models.
    """
    for _ in range(_TRIES if len(seen) * 2 < len(offered) else 0):
        one = offered[int(random.random() * len(offered))]
        if one.prompt.id not in seen:
            return one
    left = [(len(seen.get(one.prompt.id, ())), one) for one in offered]
    left = [(times, one) for times, one in left if not times or one.has_more(seen[one.prompt.id])]
    if not left:
        return None
    fewest = min(times for times, _ in left)
    among = [one for times, one in left if times == fewest]
    return among[int(random.random() * len(among))]


class AnswerPools:
    """The pool, which is read again when an answer has changed, at most a second late; what a prompt lacked, a minute.

    Threads may share one object.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._version: tuple[Any, ...] | None = None
        self._pool = AnswerPool(())
        self._until = self._stale_at = 0.0

    def current(self) -> AnswerPool:
        """Return the pool."""
        with self._lock:
            now = time.monotonic()
            if now >= self._until:
                with self._database.read() as conn:
                    version = pool_version(conn)
                    if version != self._version or now >= self._stale_at:
                        self._pool = AnswerPool([_pooled(row) for row in read_pool(conn)])
                        self._version, self._stale_at = version, now + _REREAD_SECONDS
                self._until = now + _CHECK_SECONDS
            return self._pool


def _pooled(row: Any) -> PooledPrompt:
    named = {name: value for name in ("category", "language") if (value := getattr(row, name)) is not None}
    return PooledPrompt(row.id, named, dict(zip(row.model_ids, row.answer_ids, strict=True)))
