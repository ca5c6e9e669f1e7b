"""What a vote may say, on every way into the service: outcome words, tags, metadata, and two different models."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field

from app.errors import FieldError
from app.naming.look_alikes import appearance
from app.naming.names import MAX_NAME_LENGTH, Label, label_error
from app.rating.settings import MAX_FEATURES, SIDE
from app.votes.prompts import MAX_PROMPT_LENGTH

if TYPE_CHECKING:  # `rate` checks a file by these rules, without a database
    from app.naming.aliases import ModelNames

Model = TypeVar("Model", str, int)

Winner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
WINNERS: tuple[Winner, ...] = get_args(Winner)
"""The outcome words. The votes table stores a word as its place here: 0 for `model_a`."""

SaidWinner = Literal[Winner, "both_bad", "bothbad"]
"""The words that a vote over HTTP may use; the last two mean `tie (bothbad)`."""
OUTCOMES: dict[SaidWinner, int] = {
    **{word: number for number, word in enumerate(WINNERS)},
    "both_bad": WINNERS.index("tie (bothbad)"),
    "bothbad": WINNERS.index("tie (bothbad)"),
}
"""How the votes table stores each word."""

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far a sender's clock may be ahead of the service's: a vote that was cast later than that is refused."""
IN_FUTURE = f"must not lie in the future, by more than {MAX_CLOCK_SKEW.seconds // 60} minutes"

OVERALL = "overall"
"""The criterion of votes that state none: which answer is better."""
MAX_CRITERION_LENGTH = 100
CRITERION_TAG = "criterion="
"""Begins the tags of the leaderboards of criteria; a vote's own tag that begins so has none."""
MAX_TAGS = 50
MAX_METADATA_LENGTH = 16_000
MAX_METADATA_VALUES = 100
"""At all levels. A batch of 10,000 such votes takes about a second to parse."""
MAX_METADATA_DEPTH = 20

MOST_RANKED = 20
"""Models in one ranking: 190 pairs."""
MOST_RANKED_IN_FILES = 100
"""The same where a file is rated and nothing is stored: 4,950 pairs."""
HOW = ": keep the best of them, or send votes on pairs (`rate` reads a ranking of up to 100)"
"""What to do with a longer ranking."""

Ranking = Sequence[Sequence[Model]]
"""Groups of models, the best first: by name, or by number. The models of a group are equal."""

MAX_MEASURE = 1e15
Measure = Annotated[float, Field(strict=True, ge=-MAX_MEASURE, le=MAX_MEASURE, allow_inf_nan=False)]


def _without_side(features: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    if SIDE in features:
        raise ValueError("must not have side, which every vote has: the order of its models")
    return features


Features = Annotated[
    dict[Label, tuple[Measure, Measure]], Field(max_length=MAX_FEATURES), AfterValidator(_without_side)
]
"""What the two answers measure: `{"length": [120, 80]}`, that of model_a first."""

_CHARACTER = 12  # bytes that JSON may take for one: two escapes
MAX_VOTE_BYTES = _CHARACTER * (
    (MAX_TAGS + MAX_FEATURES + MOST_RANKED + 5) * MAX_NAME_LENGTH + MAX_METADATA_LENGTH + MAX_PROMPT_LENGTH
)
"""Length of the longest vote as JSON, names and values escaped in full."""


def stated_criterion(criterion: str) -> str | None:
    """Return a criterion as it is stored: None for `overall`, also as OVERALL or in another form that looks like it."""
    return None if criterion == OVERALL or appearance(criterion) == OVERALL else criterion


Criterion = Annotated[Label, Field(max_length=MAX_CRITERION_LENGTH), AfterValidator(stated_criterion)]


def criterion_tag(criterion: str) -> str:
    """Return what names the leaderboard of a criterion among those by tag."""
    return f"{CRITERION_TAG}{criterion}"


def criterion_of(tag: str) -> str | None:
    """Return the criterion whose leaderboard a tag names; None for that of other tags."""
    return tag.removeprefix(CRITERION_TAG) if tag.startswith(CRITERION_TAG) else None


def tag_errors(tags: Sequence[str]) -> list[FieldError]:
    """Return everything that is wrong with a vote's tags."""
    errors = [FieldError("/tags", f"must be at most {MAX_TAGS}")] if len(tags) > MAX_TAGS else []
    return errors + [
        FieldError(f"/tags/{i}", error) for i, tag in enumerate(tags[:MAX_TAGS]) if (error := label_error(tag))
    ]


def metadata_error(metadata: dict[str, Any]) -> str | None:
    """Return why PostgreSQL could not store the metadata as `jsonb`, or why it is too large; None if it is neither."""
    values: list[Any] = [metadata]
    found = 0
    for _ in range(MAX_METADATA_DEPTH):
        values = [x for one in values if isinstance(one, dict | list) for x in _values_of(one)]
        found += len(values)
        if found > MAX_METADATA_VALUES:  # looking at millions would take seconds
            return f"must have at most {MAX_METADATA_VALUES} values"
    if values:
        return f"must not nest deeper than {MAX_METADATA_DEPTH} levels"
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return "must not contain NaN or Infinity"
    if len(text) > MAX_METADATA_LENGTH:
        return f"must have at most {MAX_METADATA_LENGTH} characters as JSON"
    # Not a backslash before u0000. The handler leaves out halves of surrogate pairs, which have no bytes in UTF-8.
    storable = "\\u0000" not in text.replace(r"\\", "") and text.encode(errors="ignore").decode() == text
    return None if storable else "must not contain the character U+0000 or half of a surrogate pair"


def model_errors(
    names: "ModelNames", models: Mapping[str, str], voted_at: datetime | None, *, by_token: bool = False
) -> tuple[FieldError, ...]:
    """Return why a vote on models cannot be recorded: two names mean one model, or one is unknown.

    `models` : the place in the vote → the name.
    """
    numbers = {pointer: names.number(name, voted_at) for pointer, name in models.items()}
    place: dict[int, str] = {}
    for pointer, number in numbers.items():
        if number is not None and place.setdefault(number, pointer) != pointer:
            other = place[number].removeprefix("/")
            return (FieldError(pointer, f"must differ from {other}: both are names of one model"),)
    refused = "a vote by a token adds none" if by_token else "unknown models are refused"
    unknown = f"is not the name of a model; {refused}"
    return tuple(FieldError(pointer, unknown) for pointer, number in numbers.items() if number is None)


def ranking_error(groups: Ranking[str], most: int = MOST_RANKED) -> str | None:
    """Return why this is no ranking of at most so many models, None if it is one."""
    if not groups or not all(groups):
        return 'must have groups of at least one model, the best first, such as [["best"], ["second", "its equal"]]'
    names = [name for group in groups for name in group]
    if not 1 < len(names) <= most:
        how = HOW if most == MOST_RANKED and len(names) > most else ""
        return f"must order 2 to {most} models, has {len(names)}{how}"
    return None if len(set(names)) == len(names) else "must have each model once"


def places_of(groups: Ranking[str]) -> dict[str, str]:
    """Return the place in the vote → the name of each model of a ranking."""
    return {f"/ranking/{i}/{j}": name for i, group in enumerate(groups) for j, name in enumerate(group)}


def pairs_of(groups: Ranking[Model]) -> list[tuple[Model, Model, int]]:
    """Return the pairs of a ranking with their outcome codes, the models in their own order: a ranking has no sides."""
    place = sorted((model, i) for i, group in enumerate(groups) for model in group)
    return [(a, b, 2 if i == j else int(i > j)) for (a, i), (b, j) in combinations(place, 2)]


def _values_of(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container
