"""Votes from the caller's table, and results as tables of the same kind."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import narwhals as nw
import numpy as np
import polars as pl
from narwhals.typing import IntoFrame
from numpy.typing import ArrayLike

from app.rating.arrays import OUTCOME_VALUES, Floats, Indices, Ints, Mask
from app.rating.errors import VotesError, counted
from app.rating.settings import SIDE
from app.rating.votes.cells import Cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features, find_unclear, measure_features
from app.rating.votes.words import WORDS

VotesLike = IntoFrame | Mapping[str, ArrayLike]
"""A pandas, polars or Arrow table, any other that narwhals knows, or a mapping from column names to arrays."""

NEEDED = ("model_a", "model_b", "winner")
COLUMNS = (*NEEDED, "annotator", "weight", "battle_id", "propensity", "of_ranking", "prompt", "cluster", "timestamp")
OUTCOMES: Mapping[str, float] = {word: float(OUTCOME_VALUES[code]) for word, code in WORDS.items()}
"""Outcome words in lower case; those that files may have too."""
NAMED = 5  # unknown outcomes that an error names

_DTYPES: Mapping[Any, nw.dtypes.DType] = {bool: nw.Boolean(), int: nw.Int64(), float: nw.Float64(), str: nw.String()}
_NULLABLE: Mapping[Any, str] = {int | None: "Int64", bool | None: "boolean"}  # pandas' names of its types

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # names the language; nothing is fetched


@dataclass(frozen=True)
class VoteTable:
    """The votes of a table.

    Attributes
    ----------
    annotated : whether the table has the column annotator; if not, all votes are those of one annotator, "pooled"
    kind : of table, as narwhals names it, for the results
    features : that were asked for; None without any
    clusters : of the votes that hang together, beside annotators, numbered from 0; None where no column says so
    """

    votes: IndexedVotes
    annotated: bool = True
    kind: Any = "polars"
    features: Features | None = None
    clusters: Indices | None = None

    @cached_property
    def cells(self) -> Cells:
        """The votes, aggregated."""
        return self.votes.aggregate()


def read_table(votes: VotesLike, features: Sequence[str] = (), *, in_time: bool = False) -> VoteTable:
    """Read the columns of a table that a vote has; docs/notebook.md describes them.

    Parameters
    ----------
    features : names; `length` is read from the columns length_a and length_b, `side` from none
    in_time : order the votes by the column timestamp, if every vote has one

    Raises
    ------
    VotesError
        Columns are missing, of the wrong kind, or may be weights by their name; a value is missing, an outcome is
        unknown, an annotator votes twice on a battle, or there are no rows.
    TypeError
        `votes` is no table.
    """
    measured = {name: (f"{name}_a", f"{name}_b") for name in features if name != SIDE}
    frame = _open(votes, [column for pair in measured.values() for column in pair])
    if len(frame) == 0:
        raise VotesError("no votes: the table has no rows", "no-votes")
    names = _names(frame)
    (a, b), models = _number(names, "model_a", "model_b")
    annotated = "annotator" in frame.columns
    if annotated:
        (annotator,), annotators = _number(names, "annotator")
        _refuse_repeats(frame)
    else:
        annotator, annotators = np.zeros(len(frame), dtype=np.int32), ["pooled"]
    weight = _numbers(frame, "weight") if "weight" in frame.columns else None
    propensity = _numbers(frame, "propensity", missing=True) if "propensity" in frame.columns else None
    share = 1.0 / _numbers(frame, "of_ranking") if "of_ranking" in frame.columns else None
    indexed = IndexedVotes(
        annotators, models, annotator, a, b, _outcomes(frame, names), weight, propensity, share, _prompts(frame)
    )
    if in_time and "timestamp" in frame.columns and (order := _time_order(frame["timestamp"])) is not None:
        indexed = indexed.rows(order)
    clusters = _clusters(frame["cluster"]) if "cluster" in frame.columns else None
    if not features:
        return VoteTable(indexed, annotated, frame.implementation, clusters=clusters)
    given = {
        name: (_numbers(frame, pair[0]), _numbers(frame, pair[1]))
        for name, pair in measured.items()
        if not set(pair).difference(frame.columns)
    }
    found = measure_features(features, given, len(frame), weight)
    return VoteTable(indexed, annotated, frame.implementation, found, clusters)


def make_table(rows: Sequence[Mapping[str, Any]], row_type: type, kind: Any) -> Any:
    """Return rows as a table of this kind, with the columns and types of their TypedDict; None is a missing value.

    In pandas a whole number or a flag that may be missing is of the nullable type, in every table: numpy's types have
    no missing value.
    """
    hints = get_type_hints(row_type)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in hints}
    schema = {name: _dtype(hint, columns[name]) for name, hint in hints.items()}
    implementation = nw.Implementation.from_backend(kind)
    if implementation.is_pandas_like():
        series = implementation.to_native_namespace().Series
        for name, hint in hints.items():
            if hint in _NULLABLE:
                columns[name] = series(columns[name], dtype=_NULLABLE[hint])
    return nw.from_dict(columns, schema, backend=kind).to_native()


def _dtype(hint: Any, values: list[Any]) -> nw.dtypes.DType:
    found = {type(value) for value in values}
    if hint is str and int in found:  # names may be numbers
        return nw.Int64()
    if hint == int | float:  # numbers of votes are whole, unless votes have weights
        return _DTYPES[float if float in found else int]
    return _DTYPES[(get_args(hint) or (hint,))[0]]


def _open(votes: VotesLike, measures: Sequence[str]) -> nw.DataFrame[Any]:
    if isinstance(votes, Mapping):
        _check_columns(list(votes))
        return nw.from_dict(_arrays(votes, (*COLUMNS, *measures)), backend="polars")
    try:
        frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(votes)
    except TypeError:
        kinds = "a pandas, polars or Arrow table, or a mapping from column names to arrays"
        raise TypeError(f"votes must be {kinds}, not {type(votes).__name__}") from None
    frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    _check_columns(frame.columns)
    return frame


def _check_columns(columns: Sequence[str]) -> None:
    if missing := [name for name in NEEDED if name not in columns]:
        found = ", ".join(map(str, columns)) or "none"
        raise VotesError(f"missing columns: {', '.join(missing)} (found: {found})", "column")
    if unclear := find_unclear(columns):
        detail = f"{unclear[0]} may say how many votes a row stands for: name the column weight, or leave it out"
        raise VotesError(detail, "column")


def _arrays(votes: Mapping[str, ArrayLike], columns: Collection[str]) -> dict[str, Any]:
    arrays = {name: np.asarray(values) for name, values in votes.items() if name in columns}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise VotesError(f"{name} must have one dimension, has {array.ndim}", "shape")
        if array.dtype == object and not all(value is None or isinstance(value, str) for value in array):
            raise VotesError(f"{name} mixes kinds of values; it must be text or numbers", "type")
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise VotesError(f"the columns differ in length: {lengths}", "shape")
    return arrays


def _refuse_repeats(frame: nw.DataFrame[Any]) -> None:
    if "battle_id" not in frame.columns:
        return
    repeated = frame.select("annotator", "battle_id").is_duplicated() & ~frame["battle_id"].is_null()
    _refuse_rows("battle_id", "repeats a vote of the same annotator", repeated.to_numpy())


def _names(frame: nw.DataFrame[Any]) -> pl.DataFrame:
    """Return the columns of names, and of outcomes in words, as categories or 64-bit integers; none is missing."""
    found, kinds = dict[str, pl.Series](), list[pl.Expr]()
    for column in ("annotator", *NEEDED):
        if column not in frame.columns or (column == "winner" and not _is_text(frame[column])):
            continue
        series = frame[column]
        if series.null_count():
            _refuse_rows(column, "is missing", series.is_null().to_numpy())
        if not (_is_text(series) or series.dtype.is_integer()):
            raise VotesError(f"{column} must be text or whole numbers, is {series.dtype}", "type")
        found[column] = _in_polars(series)
        kinds.append(pl.col(column).cast(pl.Int64 if series.dtype.is_integer() else pl.Categorical))
    return pl.DataFrame(found).select(kinds)


def _time_order(series: nw.Series[Any]) -> Indices | None:
    """Return the order of times: of dates, numbers, or texts that begin with the year; None where it is not known."""
    times = pl.Series("time", series.to_list())
    is_text = times.dtype == pl.String
    if times.null_count() or (is_text and not times.str.contains(r"^\d{4}-\d\d-\d\d").all()):
        return None
    order: Indices = times.to_frame().with_row_index().sort("time", "index")["index"].to_numpy().astype(np.int64)
    return order


def _clusters(series: nw.Series[Any]) -> Indices:
    """Return the number of each vote's cluster; a vote without one is alone."""
    names = _in_polars(series).cast(pl.String)
    alone = pl.int_range(len(names), eager=True).cast(pl.String)
    named = pl.select(pl.when(names.is_null()).then(pl.lit("alone ") + alone).otherwise(pl.lit("in ") + names))
    found: Indices = named.to_series().rank("dense").cast(pl.Int64).to_numpy() - 1
    return found


def _in_polars(series: nw.Series[Any]) -> pl.Series:
    """Return a column of text or integers as polars has it; categories of polars and Arrow stay categories."""
    if series.implementation in (nw.Implementation.POLARS, nw.Implementation.PYARROW):
        return pl.Series(series.to_native())
    return pl.Series(series.cast(nw.String).to_list() if _is_text(series) else series.to_numpy())


def _prompts(frame: nw.DataFrame[Any]) -> Indices | None:
    """Return a number for what the models of each vote were asked, −1 where it is missing; None without the column."""
    if "prompt" not in frame.columns:
        return None
    series = frame["prompt"]
    if (_is_text(series) or series.dtype.is_integer()) and not series.null_count():
        texts = _in_polars(series).cast(pl.String)
    else:  # of any kind: it is not read
        texts = pl.Series([None if _is_missing(value) else str(value) for value in series.to_list()])
    known = texts.cast(pl.String).replace("", None).cast(pl.Categorical)
    numbers: Indices = known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return numbers


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(names: pl.DataFrame, *columns: str) -> tuple[list[Ints], list[Any]]:
    """Return columns of names as the places of the names in sorted order, and the names."""
    if len({names[column].dtype for column in columns}) > 1:
        raise VotesError(f"{' and '.join(columns)} differ in kind: one is text, the other numbers", "type")
    joined = pl.concat([names[column].alias("name") for column in columns])
    if joined.dtype == pl.Int64:
        found = joined.unique().sort()
        place = joined.replace_strict(found, range(len(found)), return_dtype=pl.Int32).to_numpy()
    else:
        code = joined.to_physical().to_numpy()
        row = np.full(int(code.max()) + 1, -1)
        row[code] = np.arange(len(code))  # where each category is
        present = np.flatnonzero(row >= 0)
        found = joined.gather(row[present]).cast(pl.String)
        order = found.arg_sort().to_numpy()
        found, place = found.gather(order), np.empty(len(row), dtype=np.int32)
        place[present[order]] = np.arange(len(order))
        place = place[code]
    parts = np.split(place, len(columns))
    if found[0] == "":
        for column, part in zip(columns, parts, strict=True):
            _refuse_rows(column, "is empty", part == 0)
    return parts, found.to_list()


def _outcomes(frame: nw.DataFrame[Any], names: pl.DataFrame) -> Floats:
    """Return W of each vote, from outcome words or from numbers."""
    if "winner" not in names.columns:
        outcome = _numbers(frame, "winner")
        known = np.array([*OUTCOMES.values()])
        _refuse_unknown(np.unique(outcome[~np.isin(outcome, known)]).tolist(), OUTCOMES.values())
        return outcome
    (place,), words = _number(names, "winner")
    plain = [word.strip().lower() for word in words]
    _refuse_unknown([word for word, one in zip(words, plain, strict=True) if one not in OUTCOMES], ())
    return np.array([OUTCOMES[word] for word in plain])[place]


def _refuse_unknown(found: Iterable[Any], known: Collection[Any]) -> None:
    if unknown := [repr(value) for value in dict.fromkeys(found) if value not in known]:
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        known_words = "known are model_a, model_b, tie, both_bad and the words of vote files, and 1, 0 and 0.5"
        raise VotesError(f"unknown winner {', '.join(unknown[:NAMED])}{more}; {known_words}", "value")


def _numbers(frame: nw.DataFrame[Any], column: str, *, missing: bool = False) -> Floats:
    series = frame[column]
    if not series.dtype.is_numeric():
        raise VotesError(f"{column} cannot be {series.dtype}", "type")
    numbers: Floats = series.cast(nw.Float64).to_numpy()
    if not missing:
        _refuse_rows(column, "is missing", np.isnan(numbers))
    return numbers


def _is_text(series: nw.Series[Any]) -> bool:
    return series.dtype in (nw.String, nw.Categorical, nw.Enum)


def _refuse_rows(column: str, fault: str, rows: Mask) -> None:
    if rows.any():
        number = counted(int(rows.sum()), "row")
        raise VotesError(f"{column} {fault} in {number}, the first is row {int(rows.argmax())}", "value")


_NAMES = {"annotator": pl.String, "model_a": pl.String, "model_b": pl.String, "battle_id": pl.String}
_READERS: Mapping[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": partial(pl.read_csv, schema_overrides=_NAMES, infer_schema_length=None),
    ".jsonl": partial(pl.read_ndjson, infer_schema_length=None),
    ".parquet": pl.read_parquet,
}


def read_votes(path: str | Path) -> pl.DataFrame:
    """Read a file of votes as a polars table: CSV or JSON lines (both also .gz, .zst), or Parquet.

    Every column is kept. Names in a CSV file stay as they are written: 007 and 1.0 are text.

    Raises
    ------
    VotesError
        The name has an unknown ending, or the file is not what its ending says.
    FileNotFoundError
    """
    path = Path(path)
    kind = Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix
    if kind not in _READERS:
        raise VotesError(
            f"{path} is of unknown kind; known are {', '.join(_READERS)}, and .csv and .jsonl as .gz and .zst"
        )
    try:
        return _READERS[kind](path)
    except pl.exceptions.PolarsError as error:
        raise VotesError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


Spec = dict[str, Any]


def leaderboard_chart(rows: Sequence[Mapping[str, Any]], title: str) -> Spec:
    """Return a Vega-Lite chart of the models, best first: scores as points with their intervals.

    Parameters
    ----------
    rows : model, score, lower, upper and component; a model without a score shows its bound as a triangle
    title : of the axis of scores
    """
    values = [{**row, **_bound(row)} for row in rows]
    marks: list[Spec] = [
        {"mark": "rule", "encoding": {"x2": {"field": "upper"}, "x": _points("lower", title)}},
        {"mark": {"type": "point", "filled": True, "opacity": 1}, "encoding": {"x": _points("score", title)}},
    ]
    if any(value["bound"] is not None for value in values):
        shapes = {"domain": ["at least", "at most"], "range": ["triangle-right", "triangle-left"]}
        shape = {"field": "side", "type": "nominal", "title": "no score, a bound", "scale": shapes}
        marks.append({"mark": "point", "encoding": {"x": _points("bound", title), "shape": shape}})
    encoding: Spec = {"y": {"field": "model", "type": "nominal", "title": None, "sort": [row["model"] for row in rows]}}
    if len({row["component"] for row in rows}) > 1:
        encoding["color"] = {"field": "component", "type": "nominal", "title": "ranked apart"}
    return {"$schema": SCHEMA, "data": {"values": values}, "height": {"step": 18}, "encoding": encoding, "layer": marks}


def _points(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}}


def _bound(row: Mapping[str, Any]) -> Spec:
    """Return the one-sided bound of a model without a score, and take it out of the ends of an interval."""
    if row["score"] is not None:
        return {"bound": None, "side": None}
    side = None if row["lower"] is row["upper"] else "at least" if row["upper"] is None else "at most"
    bound = row["lower"] if row["upper"] is None else row["upper"]
    return {"bound": bound, "side": side, "lower": None, "upper": None}
