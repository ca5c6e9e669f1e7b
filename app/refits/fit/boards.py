"""The boards beside the loop's own: what the votes say without abilities, without a loop, in some order, by tag."""

from dataclasses import replace

import numpy as np

from app.rating.data.arrays import Mask
from app.rating.data.compact import pool_annotators
from app.rating.data.votes import Cells, aggregate
from app.rating.errors import NotConvergedError, VotesError
from app.rating.inference.ranks import rank_by
from app.rating.loop.results import LoopResult, ModelEstimates, RatingNotice
from app.rating.loop.round import run_round
from app.rating.loop.slices import estimate_slice, hold_abilities
from app.rating.solver.elo import fit_elo
from app.refits.fit.task import BoardName, FitTask

ELO_UPDATES = 10_000_000
"""How many votes Elo plays in all, over its random orders: about a second."""
FEWEST_SHUFFLES, MOST_SHUFFLES = 20, 1000


def other_boards(
    task: FitTask, cells: Cells, turn: LoopResult
) -> tuple[dict[BoardName, ModelEstimates], tuple[RatingNotice, ...]]:
    """Return the boards for comparison, and those of the tags, by name; and what is to be known of the tags.

    "m-elo" is of the votes that the turn kept, "m-elo-all" of every vote of the task. "elo" is missing where the votes
    are too many for it to be cheap, a tag's where none of its votes is kept or its scores have no end; a notice says
    which tag it is, and why.
    """
    plain = replace(
        task.settings, method="m-elo", flag_rule="threshold", exclude=False, release_margin=0.0, min_votes=0
    )
    # Not whoever has an ability: somebody whose votes are all on models without a score counts, and has none.
    kept_cells = turn.estimate.cells
    boards = {
        BoardName("m-elo"): run_round(kept_cells, plain).rating.models,
        BoardName("m-elo-all"): run_round(cells, plain).rating.models,
    }
    shuffles = int(min(MOST_SHUFFLES, ELO_UPDATES // kept_cells.n_votes))
    if shuffles >= FEWEST_SHUFFLES:
        boards[BoardName("elo")] = _elo_board(kept_cells, turn, shuffles)
    of_tags, notices = _tag_boards(task, turn, kept_cells.votes_by_annotator() > 0)
    return boards | of_tags, notices


def _elo_board(cells: Cells, turn: LoopResult, shuffles: int) -> ModelEstimates:
    """Rate by Elo over random orders, the standard error being that of their mean; no intervals.

    The votes are put in an order of their own first, so that the same votes give the same board.
    """
    pooled = pool_annotators(cells)
    counts = np.stack([pooled.s - pooled.ties / 2.0, pooled.ties, pooled.n - pooled.s - pooled.ties / 2.0], axis=1)
    repeats = counts.astype(np.int64).ravel()
    met, pair = np.unique(np.stack([pooled.model_a, pooled.model_b]), return_inverse=True)
    a, b = np.repeat(pair.reshape(2, -1), 3, axis=1).repeat(repeats, axis=1)
    outcome = np.tile([1.0, 0.5, 0.0], len(pooled.n)).repeat(repeats)
    result = fit_elo(a, b, outcome, n_models=len(met), initial=turn.rating.settings.base, shuffles=shuffles)
    board = turn.rating.models  # of the same votes
    score, sem, nothing = np.full((3, cells.n_models), np.nan)
    score[met], sem[met] = result.score, result.sem
    rank = np.zeros(cells.n_models, dtype=np.int64)
    for component in range(turn.rating.diagnostics.components):
        members = board.component == component
        rank[members] = rank_by(score[members])
    return replace(
        board, score=score, se=sem, lower=nothing, upper=nothing, rank=rank, best_rank=rank, worst_rank=rank,
        identified=np.isfinite(score),
    )  # fmt: skip


def _tag_boards(
    task: FitTask, turn: LoopResult, kept: Mask
) -> tuple[dict[BoardName, ModelEstimates], tuple[RatingNotice, ...]]:
    """Return a board for every tag: abilities as all votes gave them, scores from the votes with the tag."""
    boards: dict[BoardName, ModelEstimates] = {}
    notices: list[RatingNotice] = []
    if task.tag_bits is None:
        return boards, ()
    held = hold_abilities(turn.estimate, task.settings)
    counted = kept[task.annotator]
    for bit, tag in enumerate(task.tags):
        votes = counted & ((task.tag_bits >> bit) & 1).astype(np.bool_)
        cells = aggregate(
            task.annotator[votes], task.model_a[votes], task.model_b[votes], task.outcome[votes],
            n_annotators=len(task.annotator_ids), n_models=len(task.model_ids),
        )  # fmt: skip
        try:
            board = estimate_slice(cells, held, task.settings)
        except (VotesError, NotConvergedError) as error:
            # None of its annotators is in the fit yet, say: whoever makes up a tag must not be able to hold up the
            # board.
            notices.append(RatingNotice("tag-board-omitted", f"there is no board of the tag {tag!r}: {error}"))
            continue
        boards[BoardName(task.settings.method, tag)] = board
        if missing := int((~board.identified & (board.votes > 0)).sum()):
            detail = (
                f"on the board of the tag {tag!r} {missing} of {int((board.votes > 0).sum())} model(s) have no score: "
                "they only won, only lost, hang on one that did, or were judged by people who may as well be coins"
            )
            notices.append(RatingNotice("tag-scores-missing", detail))
    return boards, tuple(notices)
