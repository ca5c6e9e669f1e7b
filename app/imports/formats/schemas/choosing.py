"""Detects the format of a file and its column with the annotator, and reads `--columns winner=Label,annotator=User`."""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.errors import BadInputError
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas.known import OURS, SCHEMAS
from app.imports.formats.schemas.schema import (
    BOTH_BAD,
    FIRST,
    OF_JUDGES,
    OUTCOME_WORDS,
    SECOND,
    TIE,
    A,
    B,
    Input,
    Schema,
)
from app.imports.formats.weights import find_weight

ANNOTATOR_COLUMNS = (
    "annotator", "judge", "judge_hash", "worker", "user_id", "userId", "voter_id", "visitor_id", "judger", "judge_id",
    "judge_name", "judgeID",
)  # fmt: skip
"""Columns that name a person or a judge, by preference; a session or an address is not one unless the user says so."""

QUESTION_COLUMNS = (
    "question", "question_id", "prompt_id", "pair_id", "uid", "segmentId", "instruction", "input", "prompt",
)  # fmt: skip
"""Columns that say what was asked, by preference: judges are compared on the same questions."""

PROMPT_COLUMNS = ("prompt", "prompt_id", "question_id", "item", "instruction")
"""Columns that say what the models were asked, by preference: votes on one prompt err together."""

_PATHS = {path for one in SCHEMAS for path in (*one.required.values(), *one.optional.values(), *one.marks)}
KNOWN_COLUMNS = (
    frozenset(ANNOTATOR_COLUMNS) | frozenset(QUESTION_COLUMNS) | _PATHS | {path.partition(".")[0] for path in _PATHS}
)
"""The columns of all formats; none of them is the name of a person."""

FIELDS: Mapping[str, Input] = {
    "annotator": "annotator", "model_a": "model_a", "model_b": "model_b", "winner": "winner", "battle_id": "battle_id",
    "timestamp": "voted_at", "tags": "tags", "metadata": "metadata", "propensity": "propensity", "vote_id": "vote_id",
    "annotator_kind": "annotator_kind", "criterion": "criterion", "question": "question", "cost": "cost",
    "prompt": "asked", "model": "model", "rating": "grade", "rank": "rank", "weight": "weight",
}  # fmt: skip
"""What may be named, and our name for it."""

WORDS: Mapping[str, int] = {
    **OUTCOME_WORDS,
    FIRST: A, SECOND: B,
    **dict.fromkeys(("a", "left", "first", "a_better", "a_win"), A),
    **dict.fromkeys(("b", "right", "second", "b_better", "b_win"), B),
    **dict.fromkeys(("draw", "equal", "same"), TIE),
    "neither": BOTH_BAD,
}  # fmt: skip
"""Outcome words in any case. The winner's name does as well."""

_PAIR = re.compile(rf"\s*({'|'.join(FIELDS)})\s*=(.*)", re.DOTALL)
_BETWEEN = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")


class ColumnsError(BadInputError):
    """The columns are not those of a vote file.

    The detail names them. In a file without a header they are data, maybe names of people, so `discreet` leaves unknown
    ones out.
    """

    code = "columns"
    title = "The columns are not those of a vote file"

    def __init__(self, before: str, columns: Sequence[str], after: str = "") -> None:
        super().__init__(f"{before}{', '.join(columns) or 'none'}{after}")
        self._before, self._columns, self._after = before, columns, after

    def of_file(self, path: Path) -> "ColumnsError":
        """Return the same error with the name of the file in front."""
        return ColumnsError(f"{path}: {self._before}", self._columns, self._after)

    def discreet(self, known: Collection[str]) -> str:
        """Return the detail with the known columns and the number of others, fit to be stored and logged."""
        shown = [column for column in self._columns if column in known]
        others = len(self._columns) - len(shown)
        if others:
            shown.append(f"{others} unknown")
        return f"{self._before}{', '.join(shown) or 'none'}{self._after}"


@dataclass(frozen=True)
class Form:
    """The format of a file, and what its user says of it.

    Attributes
    ----------
    annotator : the column with the annotator; None: votes are pooled.
    weight : the column that says how many votes a record stands for.
    measures : columns that features are read from, which become one column where `options.keep_features`.
    """

    schema: Schema
    annotator: str | None
    options: ReadOptions
    weight: str | None = None
    measures: Mapping[Input, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[Input, str]:
        """Our name → the file's column."""
        who: dict[Input, str] = {"annotator": self.annotator} if self.annotator else {}
        if self.weight:
            who["weight"] = self.weight
        given = {**who, **self.schema.required, **self.schema.optional}
        if not self.options.judged:
            given = {name: column for name, column in given.items() if name not in OF_JUDGES}
        return {**given, **self.measures}


def choose_form(columns: Sequence[str], has: Callable[[str], bool], *, kind: str, options: ReadOptions) -> Form:
    """Return the format of a file.

    Parameters
    ----------
    columns : the names for the error where one is missing.
    has : whether the file has a column, or a value at a path such as `data.rating`.
    kind : of file: csv, jsonl or parquet.

    Raises
    ------
    BadInputError
        The options name no format; columns are missing; there is no column with the annotator; or it is not clear how
        many votes a record stands for.
    """
    name, pooled, renamed = options.schema, options.pool_annotators, read_columns(options.columns or None)
    named_weight = renamed.pop("weight", None)
    annotator_column = renamed.get("annotator", options.annotator_column)
    if pooled and annotator_column is not None:
        raise BadInputError("pool_annotators and annotator_column exclude each other")
    fallback, candidates = OURS, [s for s in SCHEMAS if s.kind in (None, kind)]
    if name is not None:
        fallback = find_schema(name)
        candidates = [fallback]
    if any(field != "annotator" for field in renamed):
        fallback = _with_columns(fallback, renamed)
        candidates = [fallback]
    wanted = [annotator_column] if annotator_column is not None else list(ANNOTATOR_COLUMNS)
    annotator = next((column for column in wanted if has(column)), None)
    schema = next((schema for schema in candidates if not schema.missing(has)), None)
    if schema is None:
        missing = ([] if annotator or pooled else [wanted[0]]) + fallback.missing(has)
        misnamed = any(column in renamed.values() for column in missing)
        hint = ": --columns names what the file does not have" if misnamed else ""
        hint = hint or _likely_cause(missing, columns, kind, fallback)
        raise ColumnsError(f"missing columns: {', '.join(missing)} (found: ", columns, f"){hint}")
    if annotator is None and not pooled and schema.annotator is None:
        hint = _likely_cause([wanted[0]], columns, kind, schema)
        raise ColumnsError(
            f"there is no {wanted[0]} column (found: ",
            columns,
            "): name the column with the annotator (--annotator-column; a session is not a person), or treat all votes "
            f"as those of one annotator (--pool-annotators){hint}",
        )
    question = next((column for column in QUESTION_COLUMNS if has(column)), None)
    if question is not None:
        schema = replace(schema, optional={"question": question, **schema.optional})
    prompt = next(
        (column for column in ((options.prompts,) if options.prompts else PROMPT_COLUMNS) if has(column)), None
    )
    if prompt is not None:
        schema = replace(schema, optional={"asked": prompt, **schema.optional})
    elif options.prompts:
        raise BadInputError(f"--prompts names no column: {options.prompts}")
    form = Form(schema, None if pooled else annotator, options)
    used, graded = form.columns.values(), "model" in schema.required
    return replace(form, weight=find_weight(columns, has, named=named_weight, used=used, graded=graded))


def _likely_cause(missing: Sequence[str], columns: Sequence[str], kind: str, schema: Schema) -> str:
    """Return what probably went wrong and what to type, to be put after what was found; empty where that is unclear."""
    fields = {column: field for field, name in FIELDS.items() for column in (field, schema.required.get(name, field))}
    fields |= dict.fromkeys(ANNOTATOR_COLUMNS, "annotator")
    if set(missing).intersection(ANNOTATOR_COLUMNS):
        missing = [*ANNOTATOR_COLUMNS[::-1], *missing]  # the first of them that is found wins
    if likely := _likely_columns(missing, columns, fields.get):
        pairs = ",".join(f"{field}={column}" for field, column in likely.items())
        return f": perhaps --columns {shlex.quote(pairs)}"
    if kind == "csv" and len(columns) == 1:
        return ": the header is one column, so fields are perhaps separated by something else than , ; | or a tab"
    if kind == "csv" and not KNOWN_COLUMNS.intersection(columns):
        return ": no name is known, so perhaps there is no header line; --columns winner=…,model_a=… names others"
    return ": --columns winner=…,model_a=… says which columns are meant" if columns else ""


def find_schema(name: str) -> Schema:
    """Return the format of this name. Raises BadInputError."""
    for schema in SCHEMAS:
        if schema.name == name:
            return schema
    known = ", ".join(schema.name for schema in SCHEMAS)
    raise BadInputError(f"unknown vote file format {name!r}; known are {known}")


def read_columns(text: str | None) -> dict[Input, str]:
    """Return the columns that `winner=Label,annotator=User` names; a column's name may have commas in it.

    `weight=` says that no column has weights, and None names none.

    Raises BadInputError.
    """
    columns: dict[Input, str] = {}
    for part in () if text is None else _BETWEEN.split(text):
        pair = _PAIR.fullmatch(part)
        if pair is None or not (pair[2].strip() or pair[1] == "weight") or "\x00" in part:
            raise BadInputError(
                f"columns must be FIELD=COLUMN,… with the fields {', '.join(FIELDS)}, is {str(text)[:200]!r}"
            )
        if FIELDS[pair[1]] in columns:
            raise BadInputError(f"columns names {pair[1]} twice")
        columns[FIELDS[pair[1]]] = pair[2].strip()
    return columns


def read_verdicts(texts: Iterable[str]) -> dict[str, int]:
    """Return the outcome codes of the words that `gauche=left` and others name; a word may have = in it.

    Several may stand in one text, between commas, where each of them names a verdict.

    Raises BadInputError.
    """
    verdicts: dict[str, int] = {}
    for text in (one for given in texts for one in _listed_verdicts(given)):
        word, _, meaning = text.rpartition("=")
        code = WORDS.get(meaning.strip().lower())
        if not word.strip() or "\x00" in word or code is None:
            known = "left, right, tie, model_a, model_b or both_bad"
            raise BadInputError(f"verdict must be WORD=VERDICT with the verdict {known}, is {text[:200]!r}")
        if verdicts.setdefault(word.strip(), code) != code:
            raise BadInputError(f"verdict gives {word.strip()[:200]!r} two meanings")
    return verdicts


def _listed_verdicts(text: str) -> list[str]:
    parts = text.split(",")
    named = [part.rpartition("=") for part in parts]
    return parts if all(word.strip() and said.strip().lower() in WORDS for word, _, said in named) else [text]


def with_verdicts(schema: Schema, verdicts: Mapping[str, int]) -> Schema:
    """Return a format that knows these outcome words too, with these codes.

    Raises BadInputError: two words that are the same to the format have two meanings.
    """
    if schema.derive == "from_name_or_word":  # in any case
        lower = {word.lower(): code for word, code in verdicts.items()}
        if wrong := next((word for word, code in verdicts.items() if lower[word.lower()] != code), None):
            raise BadInputError(f"verdict gives {wrong[:200]!r} two meanings: this format ignores case")
        verdicts = lower
    return replace(schema, winners={**schema.winners, **verdicts}, no_vote=schema.no_vote - verdicts.keys())


def _with_columns(schema: Schema, columns: Mapping[Input, str]) -> Schema:
    """Return a format whose fields are in these columns; those that are not named keep theirs."""
    required: dict[Input, str] = {name: columns.get(name, column) for name, column in schema.required.items()}
    others: dict[Input, str] = {
        name: column for name, column in columns.items() if name not in required and name != "annotator"
    }
    optional = {name: column for name, column in schema.optional.items() if name not in others}
    renamed = replace(schema, required={**required, **others}, optional=optional, kind=None)
    if "winner" in columns and schema.winners is OUTCOME_WORDS:
        renamed = replace(renamed, winners=WORDS, derive="from_name_or_word")
    return renamed


def _likely_columns(
    missing: Iterable[str], found: Iterable[str], rename: Callable[[str], str | None]
) -> dict[str, str]:
    """Return the columns that are probably meant by missing ones: the same name but for case, spaces and signs."""
    plain = {_plain(column): column for column in found}
    pairs = {column: plain.get(_plain(column)) for column in missing}
    return {name: other for column, other in pairs.items() if other and (name := rename(column))}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
