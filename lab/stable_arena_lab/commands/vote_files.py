"""The votes of a file, for an experiment."""

from dataclasses import dataclass
from pathlib import Path

from app.cli.progress import Stages
from app.imports.formats.whole import read_vote_file
from app.rating.estimators.tables import read_table
from app.rating.votes.cells import Cells
from app.rating.votes.indexed import IndexedVotes


@dataclass(frozen=True)
class NamedCells:
    """Cells, and the names of models and annotators by index."""

    cells: Cells
    models: list[str]
    annotators: list[str]


def open_named(file: Path, stages: Stages) -> NamedCells:
    """Read a vote file as cells.

    Raises
    ------
    BadInputError
        It has invalid records.
    """
    indexed = read_indexed(file, stages)
    return NamedCells(indexed.aggregate(), indexed.models, indexed.annotators)


def read_indexed(file: Path, stages: Stages) -> IndexedVotes:
    """Read a vote file as arrays.

    Raises
    ------
    BadInputError
        It has invalid records.
    """
    stages.stage("reading")
    votes = read_vote_file(file, progress=stages.share)
    votes.require_valid(file)
    return read_table(votes.table()).votes
