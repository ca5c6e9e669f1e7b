"""What to type for a file whose columns are not known: a guess from names and values, tried before it is said."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any, cast

from app.imports.formats.other_times import read_other_time
from app.imports.formats.schemas import ANNOTATOR_COLUMNS, KNOWN_COLUMNS, Input, is_number
from app.imports.formats.sources import VoteSource
from app.imports.formats.values import APART
from app.rating.votes.words import WORDS

Paths = Mapping[str, list[str]]
"""The columns of a file, and the paths inside of objects and lists, with some of their values."""

_LOOKED_AT, _DEPTH, _MOST_TRIED, _MOST_PATHS = 100, 6, 40, 200
_STEPS = re.compile(r"\.(?=[^.])")
_PAIR, _FEW = 2, 6
_LEFT = ("0", "a", "1", "left", "first", "one", "home")
_RIGHT = ("1", "b", "2", "right", "second", "two", "away")
_MODEL = (
    "model", "system", "llm", "generator", "assistant", "bot", "agent", "player", "team", "engine", "candidate",
    "variety", "option", "item",
)  # fmt: skip
_WINNER = (
    "winner", "verdict", "preference", "preferred", "choice", "chosen", "selected", "label", "vote", "outcome",
    "result", "better", "best", "decision", "judgment", "judgement", "answer", "winning",
)  # fmt: skip
_EQUALLY = ("tie", "tied", "draw", "equal", "equally", "same", "similar", "good", "bad", "neither")
_BADLY = ("bad", "neither")
_CHOSEN = ("chosen", "winner", "winning", "preferred", "better", "accepted")
_REJECTED = ("rejected", "loser", "losing", "dispreferred", "worse", "refused")
_ANNOTATOR = (
    "annotator", "judge", "rater", "user", "voter", "worker", "evaluator", "labeler", "labeller", "reviewer",
    "participant", "respondent", "assessor", "person", "completed", "farmer",
)  # fmt: skip
_ITEM = ("item", "prompt", "question", "task", "instruction", "battle", "sample")
_GRADE, _RANK = ("rating", "score", "grade"), ("rank", "position", "place")
_WINS, _TIES = ("wins", "win", "won"), ("ties", "tie", "draws", "draw")


def find_hint(
    source: VoteSource,
    reads: Callable[[str, bool], str | None],
    *,
    pooled: bool,
    named: str | None,
    only_annotator: bool,
) -> str:
    """Return what probably went wrong, with the options that read the file; empty where that is unclear.

    Parameters
    ----------
    reads : what else to type so that these columns read the first records, with all votes as those of one annotator or
        not; None where they do not
    pooled : whether the user pools the annotators
    named : what the user says of the columns
    only_annotator : whether nothing else is missing
    """
    columns = list(source.columns)
    if source.kind == "csv" and len(columns) == 1:
        return _other_mark(columns[0])
    paths = _paths(source)
    if source.kind == "csv" and not (KNOWN_COLUMNS - WORDS.keys()).intersection(columns) and _is_data(columns):
        return _without_header(columns)
    guesses = _guesses(paths)
    if only_annotator:
        guesses = ({"annotator": path} for path in _by_words(paths, _ANNOTATOR))
    for guess in islice(guesses, _MOST_TRIED):
        plain = {name: path for name, path in guess.items() if path not in (name, *ANNOTATOR_COLUMNS)} or guess
        for chosen in dict.fromkeys([_join(named, plain), _join(named, guess)]):
            for pool in (pooled,) if pooled or "annotator" in guess else (False, True):
                if (words := reads(chosen, pool)) is not None:
                    more = " --pool-annotators" if pool and not pooled else ""
                    return f"perhaps --columns {shlex.quote(chosen)}{more}{words and f' {words}'}"
    return "" if only_annotator else "--columns winner=…,model_a=…,model_b=…,annotator=… says which columns are meant"


def guess_verdicts(words: Iterable[str]) -> str:
    """Return the options that say what words mean, by the side or the tie in each; empty where one has neither."""
    found = [(word, _guess_verdict(set(_words(word)))) for word in words]
    return " ".join(
        f"--verdict {shlex.quote(f'{word}={meaning}')}" for word, meaning in found if all(m for _, m in found)
    )


def _guess_verdict(words: set[str]) -> str | None:
    sides = [side for side, of_side in (("left", _LEFT[1:]), ("right", _RIGHT[1:])) if words.intersection(of_side)]
    if words.intersection(_EQUALLY):
        return None if sides else "both_bad" if words.intersection(_BADLY) else "tie"
    return sides[0] if len(sides) == 1 else None


def _join(named: str | None, guess: Mapping[str, str]) -> str:
    return ",".join([*([named] if named else []), *(f"{name}={column}" for name, column in guess.items())])


def _other_mark(header: str) -> str:
    mark = next((mark for mark in ":~^#/ " if header.count(mark) > 1), None)
    said = "the header is one column, so fields are perhaps separated by something else than , ; | or a tab"
    return said if mark is None else f"{said}: tr {shlex.quote(mark)} , < FILE | stable-arena rate -"


def _is_data(names: Sequence[str]) -> bool:
    """Whether the names of columns are rather values of a vote."""
    return any(_is_verdict(name) or is_number(name) or read_other_time(name) for name in names)


def _is_verdict(name: str) -> bool:
    """Whether a name is a word for a verdict, and none that columns have."""
    word = name.lower()
    return word in WORDS and len(word) > 1 and word not in (*_LEFT, *_RIGHT)


def _without_header(columns: Sequence[str]) -> str:
    """Return a header for the columns: a verdict by its word, two models before it, and the annotator."""
    said = "perhaps there is no header line"
    roles = {i: "winner" for i, name in enumerate(columns) if name.lower() in WORDS}
    roles |= {i: "timestamp" for i, name in enumerate(columns) if i not in roles and read_other_time(name)}
    others = [i for i in range(len(columns)) if i not in roles]
    fields = {2: ["model_a", "model_b"], 3: ["annotator", "model_a", "model_b"]}.get(len(others))
    if fields is None or sorted(roles.values()) not in (["winner"], ["timestamp", "winner"]):
        return f"{said}: put one on top, such as annotator,model_a,model_b,winner"
    roles |= dict(zip(others, fields, strict=True))
    header = ",".join(roles[i] for i in range(len(columns)))
    return f"{said}: (echo {header}; cat FILE) | stable-arena rate -"


def _paths(source: VoteSource) -> Paths:
    names = {f"{column}{APART}?": column for column in source.columns}
    batch = next(source.batches(cast("Mapping[Input, str]", names)), None)
    found = dict[str, list[str]]()
    if batch is not None:
        for row in batch.frame.head(_LOOKED_AT).iter_rows():
            for column, text in zip(source.columns, row, strict=True):
                _note(found, column, _structure(text), 0)
    return dict(islice(found.items(), _MOST_PATHS))


def _structure(text: str | None) -> Any:
    if text is None or not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _note(found: dict[str, list[str]], path: str, value: Any, depth: int) -> None:
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        if "id" in value:  # which stands for the object
            _note(found, path, value["id"], depth)
        for name, inside in value.items():
            _note(found, f"{path}.{name}", inside, depth + 1)
    elif isinstance(value, list):
        for place, inside in enumerate(value[:20]):
            _note(found, f"{path}[]", inside, depth + 1)
            if len(value) == _PAIR:
                _note(found, f"{path}.{place}", inside, depth + 1)
    elif value is not None:
        found.setdefault(path, []).append(str(value))


def _words(path: str) -> list[str]:
    """Return the words of a name: `completions[].overallScore2` has completions, overall, score and 2."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", path)
    return [part.lower() for part in parts]


def _by_words(paths: Paths, words: Sequence[str]) -> list[str]:
    """Return the paths whose names have one of these words, the least deep first, then by the order of the words."""
    found = [
        (len(_STEPS.findall(path)), words.index(hit), path)
        for path in paths
        if (hit := next((word for word in words if word in _words(path)), None))
    ]
    return [path for *_, path in sorted(found, key=lambda one: one[:2])]


def _pairs(paths: Paths) -> list[tuple[str, str]]:
    """Return the paths whose names differ in their side alone, those of models first."""
    found = []
    for one in paths:
        mine = _words(one)
        for a, b in zip(_LEFT, _RIGHT, strict=True):
            others = [other for other in paths if a in mine and _words(other) == [b if w == a else w for w in mine]]
            found += [(one, other) for other in others]
    few = {one: len(set(paths[one])) for one in paths}
    return sorted(found, key=lambda pair: (not set(_MODEL).intersection(_words(pair[0])), few[pair[0]]))


def _is_numeric(paths: Paths, path: str) -> bool:
    return all(is_number(text) for text in paths[path] if text) and any(paths[path])


def _guesses(paths: Paths) -> Iterator[dict[str, str]]:
    """Yield what the columns may be, the likeliest first."""
    who = {"annotator": found[0]} if (found := _by_words(paths, _ANNOTATOR)) else {}
    pairs = _pairs(paths)
    texts = [pair for pair in pairs if not _is_numeric(paths, pair[0])]
    wins = [pair for pair in pairs if set(_WINS).intersection(_words(pair[0]))]
    ties = [path for path in _by_words(paths, _TIES) if _is_numeric(paths, path)][:1]
    best, worst = _by_words(paths, ("best",)), _by_words(paths, ("worst",))
    for given in (who, {}) if who else ({},):
        for (a, b), (wins_a, wins_b) in zip(texts[:3], wins[:1] * 3, strict=False):
            yield {
                **given,
                "model_a": a,
                "model_b": b,
                "wins_a": wins_a,
                "wins_b": wins_b,
                **({"ties": ties[0]} if ties else {}),
            }
        if best and worst and (star := _star(paths, _MODEL, numeric=False)):
            yield {**given, "model": star, "best": best[0], "worst": worst[0]}
        yield from _won(paths, texts[:4], given)
        for chosen in _by_words(paths, _CHOSEN):
            for rejected in _by_words(paths, _REJECTED):
                if set(_MODEL).intersection(_words(chosen)) and set(_MODEL).intersection(_words(rejected)):
                    yield {**given, "best": chosen, "worst": rejected}
        yield from _graded(paths, given)
        if ranked := _ranked(paths):
            yield {**given, "rank": ",rank=".join(ranked)}


def _ranked(paths: Paths) -> list[str]:
    """Return the columns of models if each record has the ranks from 1 on in its columns of numbers, each once."""
    columns = [path for path in paths if _is_numeric(paths, path) and not _STEPS.search(path) and "[" not in path]
    if len({len(paths[path]) for path in columns}) != 1:
        return []
    ranks = {str(rank) for rank in range(1, len(columns) + 1)}
    records = zip(*(paths[path] for path in columns), strict=True)
    return columns if len(columns) > _PAIR and all(set(record) == ranks for record in records) else []


def _won(paths: Paths, pairs: Sequence[tuple[str, str]], given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield two models and the winner: of columns by their names, or such that the winner is always one of the two."""
    for a, b in pairs:
        others = {path: texts for path, texts in paths.items() if path not in (a, b)}
        few = [path for path, texts in others.items() if len(set(texts)) <= _FEW and not _is_numeric(paths, path)]
        for winner in dict.fromkeys([*_by_words(others, _WINNER)[:6], *few]):
            yield {**given, "model_a": a, "model_b": b, "winner": winner}
    for winner in _by_words(paths, _WINNER):
        for a, b in combinations([path for path in paths if path != winner and path not in given.values()][:8], 2):
            if len(paths[a]) == len(paths[b]) == len(paths[winner]) and all(
                name in both for name, *both in zip(paths[winner], paths[a], paths[b], strict=True)
            ):
                yield {**given, "model_a": a, "model_b": b, "winner": winner}


def _graded(paths: Paths, given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield grades and ranks: in a list of a record, in a column for each model, or one in each record."""
    models = [path for path in _by_words(paths, _MODEL[:6]) if not _is_numeric(paths, path)]
    for field, words in (("rating", _GRADE), ("rank", _RANK)):
        grades = [path for path in _by_words(paths, words) if _is_numeric(paths, path)]
        listed = [(m, g) for m in models for g in grades if "[]" in m and m.count("[]") == g.count("[]")]
        for model, grade in listed[:3]:
            yield {**given, "model": model, field: grade}
        star, named = _star(paths, words, numeric=True), _star(paths, _MODEL, numeric=False)
        if star and len(models) > 1 and named:
            yield {**given, "model": named, field: star}
        elif star:
            yield {**given, field: star}
        for item in _by_words(paths, _ITEM)[:2]:
            for model, grade in [(m, g) for m in models for g in grades if "[]" not in m + g and item not in (m, g)][
                :2
            ]:
                yield {**given, "item": item, "model": model, field: grade}


def _star(paths: Paths, words: Sequence[str], *, numeric: bool) -> str | None:
    """Return a name with a star for several columns that differ in one place: `score_*`."""
    found = [path for path in _by_words(paths, words) if _is_numeric(paths, path) == numeric and "[" not in path]
    stars = dict[str, int]()
    for path in found:
        for hit in re.finditer(r"[A-Za-z0-9-]+", path):
            if hit[0].lower() not in words:
                star = f"{path[: hit.start()]}*{path[hit.end() :]}"
                stars[star] = stars.get(star, 0) + 1
    most = max(stars, key=lambda star: stars[star], default=None)
    return most if most is not None and stars[most] > 1 else None
