"""A vote file's cells with the names that go with them."""

from dataclasses import dataclass
from pathlib import Path

from app.cli.progress import Stages
from app.errors import BadInputError
from app.imports.formats import encode, read_vote_file
from app.rating.data.votes import Cells, aggregate


@dataclass(frozen=True)
class NamedCells:
    """Cells, and the models' and annotators' names by index."""

    cells: Cells
    models: list[str]
    annotators: list[str]


def open_named(file: Path, stages: Stages) -> NamedCells:
    """Read a vote file.

    Raises
    ------
    BadInputError
        It has faulty votes.
    """
    stages.stage("reading")
    votes = read_vote_file(file, progress=stages.share)
    if votes.rejected:
        raise BadInputError(
            f"{file}: {votes.rejected:,} of {votes.rows_read:,} votes are faulty",
            tuple(votes.faults),
            n_errors=votes.rejected,
        )
    indexed = encode(votes.frame)
    models, annotators = list(indexed.models), list(indexed.annotators)
    cells = aggregate(
        indexed.annotator, indexed.model_a, indexed.model_b, indexed.outcome,
        n_annotators=len(annotators), n_models=len(models),
    )  # fmt: skip
    return NamedCells(cells, models, annotators)
