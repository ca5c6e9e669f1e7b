"""Metrics of votes that a server process keeps."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from prometheus_client import Counter

from app.guard.paths import PREFIX
from app.guard.process_metrics import REGISTRY, most_of

VOTE_ROUTES = {f"{PREFIX}/votes": "single", f"{PREFIX}/votes/batch": "batch"}
_ANSWERED = "votes_answered"
_FIRST_REFUSAL = 400
_NOT_VALID = frozenset({400, 422})

_votes = Counter(
    "stable_arena_votes",
    "Votes by their result. A request that was refused before its votes were read counts as one vote.",
    ("source", "status"),
    registry=REGISTRY,
)
# All of them from the start: a rate needs a first value of 0.
_VOTES = {
    (source, status): _votes.labels(source, status)
    for source in VOTE_ROUTES.values()
    for status in ("created", "duplicate", "conflict", "invalid", "refused")
}
QUEUED_VOTES = most_of("stable_arena_vote_queue_votes", "Single votes that wait for their commit")
QUEUE_LIMIT = most_of("stable_arena_vote_queue_limit_votes", "Single votes that may wait; more get 503")
BATCH_BYTES = most_of("stable_arena_batch_bytes", "Bytes of batches in work")
BATCH_LIMIT = most_of("stable_arena_batch_limit_bytes", "Bytes of batches that may be in work; more get 503")


def note_votes(scope: MutableMapping[str, Any], counts: Mapping[str, int]) -> None:
    """Remember how many of the request's votes have each status. A replayed answer has none."""
    scope[_ANSWERED] = counts


def count_votes(source: str) -> Callable[[MutableMapping[str, Any], int], None]:
    """Return what counts the votes of an answer to a request with single votes, or with a batch."""

    def count(scope: MutableMapping[str, Any], status: int) -> None:
        if scope["method"] != "POST":
            return
        counts: Mapping[str, int] | None = scope.get(_ANSWERED)
        if counts is not None:
            for name, number in counts.items():
                _VOTES[source, name].inc(number)
        elif status >= _FIRST_REFUSAL:
            _VOTES[source, "invalid" if status in _NOT_VALID and source == "single" else "refused"].inc()

    return count
