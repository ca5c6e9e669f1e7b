from dataclasses import replace

from app.rating.data.arrays import Floats
from app.rating.data.indexed import IndexedVotes
from app.rating.data.votes import Cells
from app.rating.detection.evidence import weigher_by_rule
from app.rating.errors import VotesError
from app.rating.inference.rating import Rating
from app.rating.inference.results import RatingNotice
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings

WORTH = 0.5  # share of the votes that weights leave, below which a notice says so


def rate_indexed(
    votes: IndexedVotes, cells: Cells, settings: LoopSettings, *, inverse_propensity: bool = False
) -> Rating:
    """Run one round of the loop on votes that have sides, with `run_round`'s errors.

    Parameters
    ----------
    cells : the votes, aggregated
    inverse_propensity : weigh each vote by 1/propensity (`app.rating.data.propensity`). δ counts votes and the tests
        read them as they are: weights change neither

    Raises
    ------
    ValueError
        Inverse propensities with an interval by votes: errors by votes do not hold for weights, those by annotators do.
    VotesError
        A vote has no propensity, or intervals are asked for and there is one annotator.
    """
    weigher = weigher_by_rule(votes, settings)
    if not inverse_propensity:
        return run_round(cells, settings, weigher=weigher)
    if settings.interval not in ("clustered", "none"):
        raise ValueError(f"inverse propensities need the interval clustered or none, not {settings.interval}")
    if settings.interval == "clustered" and len(votes.annotators) == 1:
        raise VotesError("inverse propensities need two annotators or more, or the interval none")
    weight = votes.choice_weights()
    result = run_round(replace(votes, weight=weight).aggregate(), settings, weigher=weigher)
    share = _worth(weight)
    if share >= WORTH:
        return result
    detail = (
        f"weighted by inverse propensities, the votes say as much as {100 * share:.0f} % of them with equal weights"
    )
    notice = RatingNotice("uneven-propensities", detail)
    return replace(result, further=(notice,))


def _worth(weight: Floats) -> float:
    """Return (Σw)²/(n Σw²), Kish's effective share of the votes."""
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
