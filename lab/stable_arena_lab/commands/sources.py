"""The votes of an experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.cli.progress import Stages
from app.errors import BadInputError
from stable_arena_lab.arenas import PAPER_ANNOTATORS, PAPER_MODELS, PAPER_VOTES, Arena, chatbot_arena, paper_arena
from stable_arena_lab.commands.vote_files import read_indexed

CHATBOT_SEED = 0


@dataclass(frozen=True)
class Source:
    """A source of arenas: a vote file, or a simulation.

    Attributes
    ----------
    title : for tables
    arena : returns the arena of a seed, for a file always the same; other processes can call it
    settings : for the report
    """

    title: str
    arena: Callable[[int], Arena]
    settings: dict[str, Any]


def open_source(file: Path | None, *, simulated: bool, chatbot: bool = False, min_votes: int, stages: Stages) -> Source:
    """Open a vote file or a simulation; annotators with `min_votes` or fewer are left out.

    Raises
    ------
    BadInputError
        Not one of them is given, or several are, or the file has invalid records.
    """
    if (file is not None) + simulated + chatbot != 1:
        raise BadInputError("give either a vote FILE or --simulated")
    if simulated:
        size = {"annotators": PAPER_ANNOTATORS, "models": PAPER_MODELS, "votes": PAPER_VOTES}
        title = f"simulated arenas of {PAPER_ANNOTATORS} annotators, {PAPER_MODELS} models, {PAPER_VOTES:,} votes"
        return Source(title, partial(_simulated, min_votes), {"source": "simulated", "min_votes": min_votes, **size})
    arena = (_read_arena(file, stages) if file is not None else chatbot_arena(CHATBOT_SEED)).of_regulars(min_votes)
    title = f"{arena.name}: {arena.n_annotators} annotators, {arena.n_models} models, {arena.n_votes:,} votes"
    size = {"annotators": arena.n_annotators, "models": arena.n_models, "votes": arena.n_votes}
    return Source(title, partial(_same, arena), {"source": arena.name, "min_votes": min_votes, **size})


def _read_arena(file: Path, stages: Stages) -> Arena:
    votes = read_indexed(file, stages)
    return Arena(
        file.name, votes.annotator, votes.model_a, votes.model_b, votes.outcome,
        len(votes.annotators), len(votes.models), models=tuple(votes.models),
    )  # fmt: skip


def _simulated(min_votes: int, seed: int) -> Arena:
    return paper_arena(seed).of_regulars(min_votes)


def _same(arena: Arena, _seed: int) -> Arena:
    return arena
