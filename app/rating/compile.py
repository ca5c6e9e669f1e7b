"""Compiles the kernels ahead of the first fit."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Ints
from app.rating.estimators.folder import halve
from app.rating.model.copies import ALL_PAIRS, FEWEST, Answers, find_copies
from app.rating.plain.elo import fit_elo
from app.rating.settings import LoopSettings, VerdictRule
from app.rating.types.evidence import Weigher, weigh
from app.rating.verdict.categories import pool_categories
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.fragility import find_fragility
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.features import SidedCells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from app.rating.votes.prompts import PromptCells

SETTINGS = LoopSettings(min_votes=0)


def compile_kernels(progress: Callable[[str], None] | None = None) -> None:
    """Rate a small made-up arena with every step that a refit and `rate` have; numba caches the machine code on disk.

    Parameters
    ----------
    progress : called with the name of each step before it begins

    Notes
    -----
    Takes about a minute of one processor where nothing is cached, and half a second where everything is.
    """
    for step in _steps():
        if progress is not None:
            progress(step)


def _steps() -> Iterator[str]:
    yield "votes"
    annotator, model_a, model_b, outcome = _draw_votes(30, 8, 20)
    cells, sparse = aggregate(annotator, model_a, model_b, outcome, n_annotators=30, n_models=8), _draw_sparse()
    yield "m-ELO"
    run_round(sparse, replace(SETTINGS, method="m-elo"))
    yield "am-ELO"
    prompt = np.arange(len(outcome)) % 7
    prompts = PromptCells.of_votes(prompt, annotator, model_a, model_b, outcome, n_annotators=30, n_models=8)
    result = run_round(cells, SETTINGS, prompts=prompts)
    yield "style"
    names = [str(i) for i in range(30)]
    votes = IndexedVotes(names, names[:8], annotator, model_a, model_b, outcome)
    measured = np.random.default_rng(0).standard_normal((len(outcome), 2))
    control_style(result, votes, Features(("length", "lists"), measured))
    yield "copies"
    many = aggregate(*_draw_votes(ALL_PAIRS + 1, 8, FEWEST), n_annotators=ALL_PAIRS + 1, n_models=8)
    find_copies(Answers.of(many, np.linspace(2.0, -2.0, 8)))
    yield "evidence"
    weigh(SidedCells.unknown(_draw_tastes()), np.linspace(2.0, -2.0, 8))
    yield "folders"
    sided = halve(SidedCells.of_votes(annotator, model_a, model_b, outcome, n_annotators=30, n_models=8))
    run_round(sided.cells, SETTINGS, weigher=Weigher(sided))
    yield "categories"
    pool_categories(result, [cells.where(cells.model_a % 2 == side) for side in range(2)])
    yield "confidence"
    measure_confidence(result, VerdictRule())
    yield "fragility"
    find_fragility(result)
    yield "Elo"
    fit_elo(*_draw_votes(30, 8, 20)[1:], n_models=8, shuffles=2)


def _draw_tastes() -> Cells:
    """Draw votes of annotators who each like one of eight models best."""
    annotator, model_a, model_b, _ = _draw_votes(30, 8, 200)
    liked = annotator % 8
    outcome = np.where(model_a == liked, 1.0, np.where(model_b == liked, 0.0, 0.5 + 0.5 * np.sign(model_b - model_a)))
    return aggregate(annotator, model_a, model_b, outcome, n_annotators=30, n_models=8)


def _draw_sparse() -> Cells:
    """Return an arena of 40 models and 100 annotators with four votes each."""
    return aggregate(*_draw_votes(100, 40, 4), n_annotators=100, n_models=40)


def _draw_votes(n_annotators: int, n_models: int, votes_each: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Draw votes of neighbours in a ranking, of which 70 % follow it and a fifth are ties."""
    generator, size = np.random.default_rng(0), n_annotators * votes_each
    annotator = np.repeat(np.arange(n_annotators, dtype=np.int32), votes_each)
    model_a = generator.integers(n_models, size=size, dtype=np.int32)
    model_b = (model_a + generator.integers(1, 4, size=size, dtype=np.int32)) % np.int32(n_models)
    follows = generator.choice([True, False], size=size, p=[0.7, 0.3])
    outcome = np.where(follows == (model_a < model_b), 1.0, 0.0)
    outcome[::5] = 0.5
    return annotator, model_a, model_b, outcome
