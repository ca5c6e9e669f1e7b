"""What `--columns winner=Label,rating=score_*` names: the columns of a vote, or of each row that a record makes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from app.errors import BadInputError
from app.imports.formats.schemas.known import CHOICE, COUNTS, GRADES, OURS, RANKING
from app.imports.formats.schemas.schema import KEYS, Input, Schema

FIELDS: Mapping[str, Input] = {
    "annotator": "annotator", "model_a": "model_a", "model_b": "model_b", "winner": "winner", "battle_id": "battle_id",
    "timestamp": "voted_at", "tags": "tags", "metadata": "metadata", "propensity": "propensity", "vote_id": "vote_id",
    "annotator_kind": "annotator_kind", "criterion": "criterion", "question": "question", "cost": "cost",
    "weight": "weight", "equal": "equal", "ranking": "ranking", "item": "battle_id", "model": "model",
    "rating": "grade", "grade": "grade", "rank": "rank", "best": "best", "worst": "worst",
    "wins_a": "wins_a", "wins_b": "wins_b", "ties": "ties", "prompt": "asked",
}  # fmt: skip
"""What may be named, and our name for it."""

_FORMS: Mapping[Input, Schema] = {
    "ranking": RANKING, "best": CHOICE, "wins_a": COUNTS, "grade": GRADES["grades"], "rank": GRADES["ranks"],
    "winner": OURS, "model_a": OURS, "model_b": OURS, "model": GRADES["ranks"],
}  # fmt: skip
"""The form of a file of which `--columns` names this column; the first that fits."""

_PAIR = re.compile(rf"\s*({'|'.join(FIELDS)})\s*=(.*)", re.DOTALL)
_BETWEEN = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")

Named = Mapping[Input, tuple[str, ...]]


def read_columns(text: str | None) -> dict[Input, tuple[str, ...]]:
    """Return the columns that `winner=Label,annotator=User` names; a column's name may have commas in it.

    A field that is named several times has a column for each row of a record. `weight=` says that no column has
    weights, and None names none.

    Raises BadInputError.
    """
    columns: dict[Input, tuple[str, ...]] = {}
    for part in () if text is None else _BETWEEN.split(text):
        pair = _PAIR.fullmatch(part)
        if pair is None or not (pair[2].strip() or pair[1] == "weight") or "\x00" in part or pair[2].strip()[:1] == "=":
            raise BadInputError(
                f"columns must be FIELD=COLUMN,… with the fields {', '.join(FIELDS)}, is {str(text)[:200]!r}"
            )
        name = FIELDS[pair[1]]
        if name in columns and name not in ("model", "grade", "rank"):
            raise BadInputError(f"columns names {pair[1]} twice")
        columns[name] = (*columns.get(name, ()), pair[2].strip())
    return columns


def name_columns(schemas: Sequence[Schema], named: Named, found: Sequence[str], *, chosen: bool) -> list[Schema]:
    """Return the forms that a file may have whose columns are named: of these schemas, or the one that the names show.

    Parameters
    ----------
    found : the columns of the file
    chosen : whether the user chose the schema

    Raises
    ------
    BadInputError
        The columns of a field are not as many as those of another.
    """
    if not chosen and (form := next((form for name, form in _FORMS.items() if name in named), None)):
        schemas = [form]
    return [_with_columns(schema, named, found) for schema in schemas]


def _with_columns(schema: Schema, named: Named, found: Sequence[str]) -> Schema:
    """Return a format whose fields are in these columns; those that are not named keep theirs."""
    wide = {name: spread for name, given in named.items() if (spread := _spread(given, found))}
    single: dict[Input, str] = {name: given[0] for name, given in named.items() if name not in wide}
    rows = _rows(wide) if wide else schema.rows
    if wide.keys() == {"model"} and not {"grade", "rank", "best"}.intersection(named):  # in their order
        rows = tuple({**row, "rank": f"={place}"} for place, row in enumerate(rows, start=1))
    marks = frozenset[str]()
    if "best" in single and "model" not in named:  # they name the models
        best, worst = single.pop("best"), single.pop("worst", None)
        if worst is None:
            raise BadInputError("columns must name worst beside best, or the models that were shown")
        rows, marks = ({"model": best, "rank": "=1"}, {"model": worst, "rank": "=2"}), frozenset({best, worst})
    if "model" not in named and (path := single.get("grade", single.get("rank", ""))) and KEYS in path and not wide:
        single["model"] = f"{path[: path.rindex(KEYS)]}{KEYS}.~"
    of_rows = frozenset(name for row in rows for name in row) if rows is not schema.rows else frozenset()
    required: dict[Input, str] = {
        name: single.get(name, column)
        for name, column in schema.required.items()
        if name not in of_rows and not (marks and name == "best")
    }
    others: dict[Input, str] = {name: column for name, column in single.items() if name not in required}
    optional = {name: column for name, column in schema.optional.items() if name not in others}
    made = replace(
        schema, required={**required, **others}, optional=optional, rows=rows, marks=schema.marks | marks, kind=None
    )
    if made.graded and not made.by_record and "battle_id" not in made.required:
        optional.pop("battle_id", None)
        made = replace(made, required={**made.required, "battle_id": "item"}, optional=optional)
    return made


def _spread(given: tuple[str, ...], found: Iterable[str]) -> dict[str, str]:
    """Return the columns of a field of several columns, by what the star in its name stands for, or by their names."""
    if len(given) > 1:
        return {column: column for column in given}
    before, star, after = given[0].partition("*")
    if not star:
        return {}
    pattern = re.compile(f"{re.escape(before)}(.+){re.escape(after)}")
    return {match[1]: column for column in found if (match := pattern.fullmatch(column))}


def _rows(wide: Mapping[Input, Mapping[str, str]]) -> tuple[Mapping[Input, str], ...]:
    """Return the columns of each row. Raises BadInputError: the fields do not go together."""
    first, *others = wide
    by_name = all(wide[name].keys() == wide[first].keys() for name in others)
    if not by_name and any(len(wide[name]) != len(wide[first]) for name in others):
        raise BadInputError(f"columns names {len(wide[first])} columns for {first}, but another number for {others[0]}")
    rows = list[Mapping[Input, str]]()
    for place, (key, column) in enumerate(wide[first].items()):
        row: dict[Input, str] = {first: column}
        row |= {name: wide[name][key] if by_name else list(wide[name].values())[place] for name in others}
        if "model" in row:
            row["option"] = f"={key.lower()}|{place + 1}|{chr(ord('a') + place)}"
        rows.append({"model": f"={key}", **row})
    return tuple(rows)
