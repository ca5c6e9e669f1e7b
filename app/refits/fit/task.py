from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.rating.loop.results import ModelEstimates, Rating, RatingNotice
from app.rating.robustness.fragility import Fragility
from app.rating.settings import LoopSettings


@dataclass(frozen=True)
class FitTask:
    """All that a fit needs, as arrays: it crosses a process boundary.

    Attributes
    ----------
    annotator, model_a, model_b : int32 arrays, shape (n_votes,)
        Positions in `annotator_ids` and `model_ids`; model_a is the left side.
    outcome : float64 array, shape (n_votes,)
        W of each vote.
    annotator_ids, model_ids : int32 arrays
        The ids under which the votes' owners are known outside; they only enter the hash.
    keep_always, keep_never : bool arrays, shape (n_annotators,)
    was_low : whom the rule had flagged or excluded before, shape (n_annotators,)
    settings : of the am-elo board
    tags : for which there are to be boards of their own
    tag_bits : int32 array, shape (n_votes,): bit i is set where the vote has the i-th of the tags; None without any
    """

    annotator: NDArray[np.int32]
    model_a: NDArray[np.int32]
    model_b: NDArray[np.int32]
    outcome: NDArray[np.float64]
    annotator_ids: NDArray[np.int32]
    model_ids: NDArray[np.int32]
    keep_always: NDArray[np.bool_]
    keep_never: NDArray[np.bool_]
    was_low: NDArray[np.bool_]
    settings: LoopSettings
    tags: tuple[str, ...] = ()
    tag_bits: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class BoardName:
    """One of a snapshot's boards: by which method, and of the votes with which tag ("" for all of them)."""

    method: str
    tag: str = ""


@dataclass(frozen=True)
class PairTable:
    """The counted votes between every two models and what the board predicts of them, shape (n_pairs,) each.

    Attributes
    ----------
    model_a, model_b : indices, model_a < model_b
    wins_a, ties, wins_b : votes
    predicted, lower, upper : that model_a beats model_b for the typical annotator; NaN where the votes do not tell
    """

    model_a: NDArray[np.int64]
    model_b: NDArray[np.int64]
    wins_a: NDArray[np.float64]
    ties: NDArray[np.float64]
    wins_b: NDArray[np.float64]
    predicted: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True)
class Fitted:
    """What a refit has computed.

    Attributes
    ----------
    rating : the loop's turn, with abilities
    boards : all the snapshot's boards, the rating's own among them
    pairs : of the votes that the turn kept
    fragility : how few votes decide the order of neighbours; None where the board is too large for it, or it was not
        asked for
    votes_hash : sha256 of the cells of every vote read
    seconds : stage → seconds
    notices : what to know of the boards by tag
    """

    rating: Rating
    boards: dict[BoardName, ModelEstimates]
    pairs: PairTable
    fragility: Fragility | None
    votes_hash: str
    seconds: dict[str, float] = field(default_factory=dict)
    notices: tuple[RatingNotice, ...] = ()
