"""The votes that an experiment runs on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.cli.progress import Stages
from app.errors import BadInputError
from app.imports.formats import encode, read_vote_file
from app.lab.arenas import PAPER_ANNOTATORS, PAPER_MODELS, PAPER_VOTES, Arena, paper_arena


@dataclass(frozen=True)
class Source:
    """Where votes come from.

    Attributes
    ----------
    title : for tables
    arena : the arena of a seed; a file's is the same for every one. Other processes can be given it
    settings : what to echo
    """

    title: str
    arena: Callable[[int], Arena]
    settings: dict[str, Any]


def open_source(file: Path | None, *, simulated: bool, min_votes: int, stages: Stages) -> Source:
    """Read the vote file, or stand ready to simulate; annotators with `min_votes` or fewer are left out.

    Raises
    ------
    BadInputError
        Neither or both are asked for, or the file has faulty votes.
    """
    if simulated == (file is not None):
        raise BadInputError("give either a vote FILE or --simulated")
    if file is None:
        size = {"annotators": PAPER_ANNOTATORS, "models": PAPER_MODELS, "votes": PAPER_VOTES}
        title = f"simulated arenas of {PAPER_ANNOTATORS} annotators, {PAPER_MODELS} models, {PAPER_VOTES:,} votes"
        settings = {"source": "simulated", "min_votes": min_votes, **size}
        return Source(title, partial(_simulated, min_votes), settings)
    stages.stage("reading")
    votes = read_vote_file(file, progress=stages.share)
    if votes.rejected:
        raise BadInputError(
            f"{file}: {votes.rejected:,} of {votes.rows_read:,} votes are faulty",
            tuple(votes.faults),
            n_errors=votes.rejected,
        )
    indexed = encode(votes.frame)
    arena = Arena(
        file.name,
        indexed.annotator,
        indexed.model_a,
        indexed.model_b,
        indexed.outcome,
        len(indexed.annotators),
        len(indexed.models),
    ).of_regulars(min_votes)
    title = f"{file.name}: {arena.n_annotators} annotators, {arena.n_models} models, {arena.n_votes:,} votes"
    size = {"annotators": arena.n_annotators, "models": arena.n_models, "votes": arena.n_votes}
    settings = {"source": file.name, "min_votes": min_votes, **size}
    return Source(title, partial(_same, arena), settings)


def _simulated(min_votes: int, seed: int) -> Arena:
    return paper_arena(seed).of_regulars(min_votes)


def _same(arena: Arena, _seed: int) -> Arena:
    return arena
