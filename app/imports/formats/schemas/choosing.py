"""Which format a file has, and which of its columns says who voted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.errors import BadInputError
from app.imports.formats.column_names import ColumnsError
from app.imports.formats.schemas import lmarena, services
from app.imports.formats.schemas.schema import Input, Schema

ANNOTATOR_COLUMNS = (
    "annotator", "judge", "judge_hash", "worker", "user_id", "userId", "voter_id", "visitor_id", "judger", "judge_id",
)  # fmt: skip
"""Columns that name a person or a judge, in order of preference; a session or an address counts only when asked for."""

SCHEMAS: tuple[Schema, ...] = (
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
"""The formats, in the order in which they are tried: what asks for more columns comes before what asks for fewer, and
what has a column named winner before what reads another one."""

_PATHS = {path for one in SCHEMAS for path in (*one.required.values(), *one.optional.values(), *one.marks)}
KNOWN_COLUMNS = frozenset(ANNOTATOR_COLUMNS) | _PATHS | {path.partition(".")[0] for path in _PATHS}
"""Every column that some format has, and so no person's name."""


@dataclass(frozen=True)
class Form:
    """A format as one file has it: the schema, and the column that says who voted (None: everyone is pooled)."""

    schema: Schema
    annotator: str | None

    @property
    def columns(self) -> dict[Input, str]:
        """What is read → the file's column."""
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
) -> Form:
    """Return the format that a file has.

    Parameters
    ----------
    columns : the names to show where something is missing.
    has : whether the file has a column, or something at a path such as `data.rating`.
    kind : of file: csv, jsonl or parquet.
    name : the format that was asked for, None to tell it from the columns.
    annotator_column : the column that was asked for, None to look for a known one.

    Raises
    ------
    BadInputError
        `name` is no format; columns are missing (it names them); nothing says who voted (it says what to choose from).
    """
    if pooled and annotator_column is not None:
        raise BadInputError("either the votes are pooled or a column says who voted, not both")
    if name is not None:
        fallback = find_schema(name)
        candidates: Sequence[Schema] = (fallback,)
    else:
        fallback, candidates = services.OURS, [s for s in SCHEMAS if s.kind in (None, kind)]
    wanted = [annotator_column] if annotator_column is not None else list(ANNOTATOR_COLUMNS)
    annotator = next((column for column in wanted if has(column)), None)
    schema = next((schema for schema in candidates if not schema.missing(has)), None)
    if schema is None:
        nobody = [] if annotator or pooled else [wanted[0]]
        raise ColumnsError(f"missing columns: {', '.join(nobody + fallback.missing(has))} (found: ", columns, ")")
    if annotator is None and not pooled:
        raise ColumnsError(
            f"there is no {wanted[0]} column (found: ",
            columns,
            "): without it all votes can only be taken as one pooled annotator's (--pool-annotators), or a column be "
            "named that says who voted (--annotator-column; a session is not a person)",
        )
    return Form(schema, None if pooled else annotator)


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
    raise BadInputError(f"there is no vote file format {name!r}; known are {known}")
