"""Detects the format of a file, and its column with the annotator."""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import BadInputError
from app.imports.formats.schemas import judges, lmarena, services
from app.imports.formats.schemas.renamed import FIELDS, likely_columns, with_columns
from app.imports.formats.schemas.schema import Input, Schema

ANNOTATOR_COLUMNS = (
    "annotator", "judge", "judge_hash", "worker", "user_id", "userId", "voter_id", "visitor_id", "judger", "judge_id",
)  # fmt: skip
"""Columns that name a person or a judge, by preference; a session or an address is not one unless the user says so."""

SCHEMAS: tuple[Schema, ...] = (
    judges.ARENA_HARD,
    judges.ALPACA_EVAL,
    services.OPEN_WEBUI,
    services.COMPARIA,
    services.COMPARIA_TURNS,
    services.TTS_ARENA,
    services.AUTOARENA,
    services.EVALICA,
    services.CROWD_KIT,
    lmarena.KAGGLE_55K,
    lmarena.LMARENA_140K,
    lmarena.LMARENA_100K,
    lmarena.LMARENA_33K,
    lmarena.SEARCH_ARENA,
    lmarena.MT_BENCH,
    services.OUR_EXPORT,
    services.OURS,
    services.COVAL,
    services.MINEBENCH,
    lmarena.BIGCODE_ARENA,
    lmarena.FASTCHAT_LOG,
)
"""The formats in the order in which they are tried: those with more columns before those with fewer, and those with a
column named winner before those with another one."""

_PATHS = {path for one in SCHEMAS for path in (*one.required.values(), *one.optional.values(), *one.marks)}
KNOWN_COLUMNS = frozenset(ANNOTATOR_COLUMNS) | _PATHS | {path.partition(".")[0] for path in _PATHS}
"""The columns of all formats; none of them is the name of a person."""


class ColumnsError(BadInputError):
    """The columns are not those of a vote file.

    The detail names them. In a file without a header they are data, maybe names of people, so `discreet` leaves unknown
    ones out.
    """

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
    """The format of a file: the schema, and the column with the annotator (None: votes are pooled).

    `annotator_prefix` is put before the name of every annotator.
    """

    schema: Schema
    annotator: str | None
    annotator_prefix: str = ""

    @property
    def columns(self) -> dict[Input, str]:
        """Our name → the file's column."""
        who: dict[Input, str] = {"annotator": self.annotator} if self.annotator else {}
        return {**who, **self.schema.required, **self.schema.optional}


def choose_form(
    columns: Sequence[str],
    has: Callable[[str], bool],
    *,
    kind: str,
    name: str | None = None,
    annotator_column: str | None = None,
    pooled: bool = False,
    renamed: Mapping[Input, str] | None = None,
) -> Form:
    """Return the format of a file.

    Parameters
    ----------
    columns : the names for the error where one is missing.
    has : whether the file has a column, or a value at a path such as `data.rating`.
    kind : of file: csv, jsonl or parquet.
    name : of the format; None detects it from the columns.
    annotator_column : None takes a known one.
    renamed : our names → the file's columns, where they are not those of the format.

    Raises
    ------
    BadInputError
        `name` is no format; columns are missing; or there is no column with the annotator.
    """
    renamed = renamed or {}
    annotator_column = renamed.get("annotator", annotator_column)
    if pooled and annotator_column is not None:
        raise BadInputError("pool_annotators and annotator_column exclude each other")
    fallback, candidates = services.OURS, [s for s in SCHEMAS if s.kind in (None, kind)]
    if name is not None:
        fallback = find_schema(name)
        candidates = [fallback]
    if any(field != "annotator" for field in renamed):
        fallback = with_columns(fallback, renamed)
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
    if annotator is None and not pooled:
        hint = _likely_cause([wanted[0]], columns, kind, schema)
        raise ColumnsError(
            f"there is no {wanted[0]} column (found: ",
            columns,
            "): name the column with the annotator (--annotator-column; a session is not a person), or treat all votes "
            f"as those of one annotator (--pool-annotators){hint}",
        )
    return Form(schema, None if pooled else annotator)


def _likely_cause(missing: Sequence[str], columns: Sequence[str], kind: str, schema: Schema) -> str:
    """Return what probably went wrong and what to type, to be put after what was found; empty where that is unclear."""
    fields = {column: field for field, name in FIELDS.items() for column in (field, schema.required.get(name, field))}
    fields |= dict.fromkeys(ANNOTATOR_COLUMNS, "annotator")
    if set(missing).intersection(ANNOTATOR_COLUMNS):
        missing = [*ANNOTATOR_COLUMNS[::-1], *missing]  # the first of them that is found wins
    if likely := likely_columns(missing, columns, fields.get):
        pairs = ",".join(f"{field}={column}" for field, column in likely.items())
        return f": perhaps --columns {shlex.quote(pairs)}"
    if kind == "csv" and len(columns) == 1:
        return ": the header is one column, so fields are perhaps separated by something else than , ; | or a tab"
    if kind == "csv" and not KNOWN_COLUMNS.intersection(columns):
        return ": no name is known, so perhaps there is no header line; --columns winner=…,model_a=… names others"
    return ": --columns winner=…,model_a=… says which columns are meant" if columns else ""


def find_schema(name: str) -> Schema:
    """Return the format of this name.

    Raises
    ------
    BadInputError
    """
    for schema in SCHEMAS:
        if schema.name == name:
            return schema
    known = ", ".join(schema.name for schema in SCHEMAS)
    raise BadInputError(f"unknown vote file format {name!r}; known are {known}")
