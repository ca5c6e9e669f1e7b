"""A round on a folder of Parquet files. Each file is a part; only the process that works on it reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from app.rating.arrays import Floats, Ints
from app.rating.errors import VotesError, VotesFault
from app.rating.estimators.tables import read_table, read_votes
from app.rating.exchange import join, run_parts
from app.rating.settings import LoopSettings
from app.rating.types.evidence import Weigher
from app.rating.uncertainty.results import Diagnostics
from app.rating.verdict.round import run_round
from app.rating.verdict.rows import ModelRow, annotator_columns, model_rows
from app.rating.votes.features import SidedCells
from app.rating.votes.graph import VoteSpread, find_components, spread_votes
from app.rating.votes.indexed import IndexedVotes

COLUMNS = ("annotator", "model_a", "model_b", "winner")
NAMED = 10  # annotators that an error names


@dataclass(frozen=True)
class RatedFolder:
    """A round's results.

    Attributes
    ----------
    models : rows of the leaderboard
    diagnostics : of the fit
    votes : number of votes on each model, by name
    read, used : number of votes, and of those that count
    per : spread of the votes by annotator, model and pair
    standings : number of annotators of each
    annotators : the columns of `AnnotatorRow`, the most able first; None if not asked for
    """

    models: list[ModelRow]
    diagnostics: Diagnostics
    votes: dict[str, int]
    read: int
    used: int
    per: dict[str, VoteSpread]
    standings: dict[str, int]
    annotators: pl.DataFrame | None


def rate_folder(
    folder: Path, settings: LoopSettings, anchor: tuple[str, float] | None = None, *, annotators: bool = False
) -> RatedFolder:
    """Run one round on all votes in a folder, on the executors in force or else on the threads of this process.

    Parameters
    ----------
    folder : of Parquet files with the columns `COLUMNS` and no others; the votes of an annotator are in one file.
        Executors find it under the same path
    settings : of am-ELO with a prior, with intervals clustered by annotator or none; their anchor is not read
    anchor : model, and its Elo points
    annotators : whether to return them

    Raises
    ------
    VotesError
        As `read_table` and `run_round`; the folder has no such file; a file has other columns; an annotator has votes
        in several files; there is no model with the anchor's name.
    ClusterError
        As `run_parts`.

    Notes
    -----
    Names are numbered in their order, file after file. Where files are in the order of their annotators' names, the
    numbers are those of `run_round` on one table, to rounding; else the few annotators that the search begins with, and
    those that determine the crowd's law, are others.
    """
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise VotesError(f"{folder} is a folder without a file *.parquet", "no-votes")
    parts = run_parts([partial(rate_part, file, settings, anchor, annotators=annotators) for file in files])
    first = parts[0]
    if first.annotators is None:
        return first
    found = pl.concat([part.annotators for part in parts if part.annotators is not None], rechunk=False)
    pending = pl.col("standing") == "pending"
    return replace(first, annotators=found.sort(pending, -pl.col("ability"), "annotator", nulls_last=True))


def rate_part(file: Path, settings: LoopSettings, anchor: tuple[str, float] | None, *, annotators: bool) -> RatedFolder:
    """Rate a file, together with the other parts; the annotators are its own, all other results those of all."""
    votes = _read(file)
    models = join(_unite, votes.models)
    _refuse_scattered(votes.annotators, file)
    if anchor is not None:
        if anchor[0] not in models:
            raise VotesError(f"there is no model {anchor[0]!r}, which the anchor names", "value")
        settings = replace(settings, anchor=(models.index(anchor[0]), anchor[1]))
    sided, names = _collapse(votes, models), votes.annotators
    del votes
    weigher = Weigher(sided, settings.evidence_tests) if settings.weighs_evidence else None
    rating = run_round(sided.cells, settings, weigher=weigher)
    columns = annotator_columns(rating)
    by_model = find_components(sided.cells).votes.astype(np.int64).tolist()
    found, numbers = np.unique(columns["standing"], return_counts=True)
    return RatedFolder(
        models=model_rows(rating, models),
        diagnostics=rating.diagnostics,
        votes=dict(zip(models, by_model, strict=True)),
        read=int(sided.cells.pairs.n_votes),
        used=int(rating.pairs.n_votes),
        per=spread_votes(sided.cells),
        standings=join(_add_counts, dict(zip(found.tolist(), numbers.tolist(), strict=True))),
        annotators=_frame(names, columns) if annotators else None,
    )


def _read(file: Path) -> IndexedVotes:
    code: VotesFault
    try:
        frame = read_votes(file)
        if set(frame.columns) == set(COLUMNS):
            return read_table(frame).votes
        detail = f"a folder's files have the columns {', '.join(COLUMNS)} and no others, this has"
        detail, code = f"{detail} {', '.join(frame.columns)}", "column"
    except VotesError as error:
        detail, code = str(error), error.code
    except OSError as error:  # it would look like a worker's death
        detail, code = f"cannot be read: {error}", "invalid"
    raise VotesError(f"{file}: {detail}", code)


def _unite(parts: list[list[Any]]) -> list[Any]:
    names = {name for part in parts for name in part}
    if len({type(name) for name in names}) > 1:
        raise VotesError("the names of models are text in some files, and numbers in others", "type")
    return sorted(names)


def _refuse_scattered(names: list[Any], file: Path) -> None:
    """Refuse annotators with votes in several files. Only hashes are compared, of suspects then the names."""
    marks = pl.Series(names).hash().to_numpy()
    suspect = np.isin(marks, join(_repeated, marks))
    where = join(_find_files, [(names[place], file.name) for place in np.flatnonzero(suspect).tolist()])
    scattered = {name: files for name, files in where.items() if len(files) > 1}
    if scattered:
        some = "; ".join(f"{name}: {', '.join(files)}" for name, files in list(scattered.items())[:NAMED])
        more = f"; and {len(scattered) - NAMED} more" if len(scattered) > NAMED else ""
        detail = f"all votes of an annotator must be in one file, which these are not: {some}{more}"
        raise VotesError(detail, "value")


def _repeated(parts: list[Any]) -> Any:
    marks = np.sort(np.concatenate(parts))
    return np.unique(marks[1:][marks[1:] == marks[:-1]])


def _find_files(parts: list[list[tuple[Any, str]]]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for name, file in (pair for part in parts for pair in part):
        found.setdefault(name, []).append(file)
    return found


def _add_counts(parts: list[dict[str, int]]) -> dict[str, int]:
    names = sorted({name for part in parts for name in part})
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _collapse(votes: IndexedVotes, models: Sequence[Any]) -> SidedCells:
    """Return the cells apart by side, with the models of all parts."""
    place = {name: i for i, name in enumerate(models)}
    model: Ints = np.array([place[name] for name in votes.models], dtype=np.int32)
    sided = SidedCells.of_votes(
        votes.annotator, model[votes.model_a], model[votes.model_b], votes.outcome,
        n_annotators=len(votes.annotators), n_models=len(models),
    )  # fmt: skip
    return halve(sided)


def halve(sided: SidedCells) -> SidedCells:
    """Return cells without weights in 28 bytes instead of 44: 32 bits hold their numbers exactly."""
    cells = sided.cells
    n, s, ties, side = (cast("Floats", each.astype(np.float32)) for each in (cells.n, cells.s, cells.ties, sided.side))
    return SidedCells(replace(cells, n=n, s=s, ties=ties), side)


def _frame(names: list[Any], columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return the columns of `AnnotatorRow`; null where there is no finite number."""
    frame = pl.DataFrame({"annotator": names, **columns}).with_columns(pl.col("votes").cast(pl.Int64))
    number = pl.selectors.float()
    frame = frame.with_columns(pl.when(number.is_finite()).then(number), pl.col("reason").replace("", None))
    return frame.with_columns(pl.col("standing", "reason").cast(pl.Categorical))
