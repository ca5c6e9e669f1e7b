"""Detects the format of a file and its column with the annotator, and what `--columns` and `--verdict` say of both."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.errors import BadInputError
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas.known import OURS, SCHEMAS
from app.imports.formats.schemas.langwatch import find_targets
from app.imports.formats.schemas.naming import name_columns, read_columns
from app.imports.formats.schemas.schema import ITEMS, OF_JUDGES, Input, Scale, Schema
from app.imports.formats.weights import find_weight
from app.rating.votes.words import WORDS, A, B
from app.votes.rules import MOST_RANKED, MOST_RANKED_IN_FILES

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

_PATHS = {
    path
    for one in SCHEMAS
    for path in (
        *one.required.values(),
        *one.optional.values(),
        *one.marks,
        *(c for row in one.rows for c in row.values()),
    )
    if not path.startswith("=")
}
KNOWN_COLUMNS = (
    frozenset(ANNOTATOR_COLUMNS) | frozenset(QUESTION_COLUMNS) | _PATHS | {path.partition(".")[0] for path in _PATHS}
)
"""The columns of all formats; none of them is the name of a person."""

NAME = -1
"""In place of an outcome code: the word is the name of the model that won."""


class ColumnsError(BadInputError):
    """The columns are not those of a vote file.

    The detail names them, and `hint` what may be done about it. In a file without a header they are data, maybe names
    of people, so `discreet` leaves unknown ones out.
    """

    code = "columns"
    title = "The columns are not those of a vote file"

    def __init__(self, before: str, columns: Sequence[str], after: str = "") -> None:
        super().__init__(f"{before}{', '.join(columns) or 'none'}{after}")
        self._before, self._columns, self._after = before, columns, after
        self.hint: str | None = None

    def of_file(self, path: Path) -> "ColumnsError":
        """Return the same error with the name of the file in front."""
        named = type(self)(f"{path}: {self._before}", self._columns, self._after)
        named.hint = self.hint
        return named

    def with_hint(self, hint: str) -> "ColumnsError":
        """Return the same error with what may be done about it."""
        hinted = type(self)(self._before, self._columns, f"{self._after}: {hint}")
        hinted.hint = hint if hint.startswith("perhaps") else None
        return hinted

    def discreet(self, known: Collection[str]) -> str:
        """Return the detail with the known columns and the number of others, fit to be stored and logged."""
        shown = [column for column in self._columns if column in known]
        others = len(self._columns) - len(shown)
        if others:
            shown.append(f"{others} unknown")
        return f"{self._before}{', '.join(shown) or 'none'}{self._after}"


class NoAnnotatorError(ColumnsError):
    """Only the annotator is missing."""


class UnnamedError(ColumnsError):
    """The user names a column that the file does not have."""


@dataclass(frozen=True)
class Form:
    """The format of a file, and what its user says of it.

    Attributes
    ----------
    annotator : the column with the annotator; None: votes are pooled.
    weight : the column that says how many votes a record stands for.
    verdicts : outcome words in lower case, as the user says → outcome codes, or `NAME`.
    measures : columns that features are read from, which become one column where `options.keep_features`.
    """

    schema: Schema
    annotator: str | None
    options: ReadOptions
    weight: str | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    measures: Mapping[Input, str] = field(default_factory=dict)

    @property
    def most_ranked(self) -> int:
        """Models in one ranking: more where nothing is stored."""
        return MOST_RANKED if self.options.keep_features else MOST_RANKED_IN_FILES

    @property
    def varied(self) -> list[Input]:
        """The sides on which the votes of a record have different models, which tell its battles apart."""
        of_rows = len(self.schema.rows) > 1 and "model_a" in self.schema.rows[0]
        return ["model_a", "model_b"] if of_rows else self.listed

    @property
    def listed(self) -> list[Input]:
        """The sides whose model is an item of a list."""
        sides: tuple[Input, ...] = ("model_a", "model_b")
        return [side for side in sides if ITEMS in self.schema.required.get(side, "")]

    @property
    def columns(self) -> dict[Input, str]:
        """Our name → the file's column, for what all rows of a record have."""
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
    name, pooled, named = options.schema, options.pool_annotators, read_columns(options.columns or None)
    named_weight = named.pop("weight", (None,))[0]
    annotator_column = named.pop("annotator", (options.annotator_column,))[0]
    if pooled and annotator_column is not None:
        raise BadInputError("pool_annotators and annotator_column exclude each other")
    candidates = [s for s in SCHEMAS if s.kind in (None, kind)] if name is None else [find_schema(name)]
    if name is None and (results := find_targets(columns)) is not None:
        candidates = [results]
    fallback = OURS if name is None else candidates[0]
    if named:
        candidates = name_columns(candidates, named, columns, chosen=name is not None)
        fallback = next((one for one in candidates if one.name == fallback.name), candidates[0])
    wanted = [annotator_column] if annotator_column is not None else list(ANNOTATOR_COLUMNS)
    annotator = next((column for column in wanted if has(column)), None)
    schema = next((schema for schema in candidates if not schema.missing(has)), None)
    if schema is None:
        missing = ([] if annotator or pooled else [wanted[0]]) + fallback.missing(has)
        given = {column for columns_of in named.values() for column in columns_of}
        misnamed = any(column in given for column in missing)
        if misnamed:
            why = "): --columns names what the file does not have"
            raise UnnamedError(f"missing columns: {', '.join(missing)} (found: ", columns, why)
        raise ColumnsError(f"missing columns: {', '.join(missing)} (found: ", columns, ")")
    if annotator is None and not pooled and schema.annotator is None and "annotator" not in schema.inputs:
        if annotator_column is None:
            raise NoAnnotatorError(
                f"there is no {wanted[0]} column (found: ",
                columns,
                "): name the column with the annotator (--annotator-column; a session is not a person), or treat all "
                "votes as those of one annotator (--pool-annotators)",
            )
        before = f"there is no column {annotator_column!r}, which is named as the annotator (found: "
        raise UnnamedError(before, columns, ")")
    schema = _with_asked(schema, has, options.prompts)
    verdicts = read_verdicts(options.verdict)
    schema = replace(schema, scale=find_ends(verdicts) or schema.scale)
    form = Form(schema, None if pooled else annotator, options, verdicts=verdicts)
    used = [*form.columns.values(), *(column for row in schema.rows for column in row.values())]
    if "wins_a" in schema.inputs:
        return form
    return replace(
        form,
        weight=find_weight(columns, has, named=named_weight, used=used, graded=schema.graded and not schema.by_record),
    )


def _with_asked(schema: Schema, has: Callable[[str], bool], prompts: str) -> Schema:
    """Return the format with the columns of what was asked: of judges, and of the models."""
    question = next((column for column in QUESTION_COLUMNS if has(column)), None)
    if question is not None:
        schema = replace(schema, optional={"question": question, **schema.optional})
    prompt = next((column for column in ((prompts,) if prompts else PROMPT_COLUMNS) if has(column)), None)
    if prompt is not None:
        schema = replace(schema, optional={"asked": prompt, **schema.optional})
    elif prompts:
        raise BadInputError(f"--prompts names no column: {prompts}")
    return schema


def find_schema(name: str) -> Schema:
    """Return the format of this name. Raises BadInputError."""
    for schema in SCHEMAS:
        if schema.name == name:
            return schema
    known = ", ".join(schema.name for schema in SCHEMAS)
    raise BadInputError(f"unknown vote file format {name!r}; known are {known}")


def read_verdicts(texts: Iterable[str]) -> dict[str, int]:
    """Return the outcome codes of the words that `gauche=left` and others name, in lower case; a word may have = in it.

    Several may stand in one text, between commas, where each of them names a verdict. `gpt=name` says that the word is
    the name of a model.

    Raises BadInputError.
    """
    verdicts: dict[str, int] = {}
    for text in (one for given in texts for one in _listed_verdicts(given)):
        word, _, meaning = text.rpartition("=")
        code = _MEANINGS.get(meaning.strip().lower())
        if not word.strip() or "\x00" in word or code is None:
            known = "left, right, tie, model_a, model_b, both_bad or name"
            raise BadInputError(f"verdict must be WORD=VERDICT with the verdict {known}, is {text[:200]!r}")
        if verdicts.setdefault(word.strip().lower(), code) != code:
            raise BadInputError(f"verdict gives {word.strip()[:200]!r} two meanings; case does not count")
    return verdicts


_MEANINGS: Mapping[str, int] = {**WORDS, "name": NAME}


def _listed_verdicts(text: str) -> list[str]:
    parts = text.split(",")
    named = [part.rpartition("=") for part in parts]
    return parts if all(word.strip() and said.strip().lower() in _MEANINGS for word, _, said in named) else [text]


def find_ends(verdicts: Mapping[str, int]) -> Scale | None:
    """Return the scale whose ends are numbers among these verdicts; None without one for each side."""
    numbers = {
        code: [float(word) for word, one in verdicts.items() if one == code and is_number(word)] for code in (A, B)
    }
    if not numbers[A] or not numbers[B]:
        return None
    ends = (min, max) if min(numbers[A]) < min(numbers[B]) else (max, min)
    return Scale(ends[0](numbers[A]), ends[1](numbers[B]))


def is_number(word: str) -> bool:
    """Whether a word is a finite number."""
    try:
        return abs(float(word)) < float("inf")
    except ValueError:
        return False
