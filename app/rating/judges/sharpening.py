"""The people's scores with the judges' verdicts as a control: the same in expectation, and known better."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import RatingNotice, VotesError, counted
from app.rating.judges.ballots import Ballots
from app.rating.judges.peoples_scores import NO_SCORES, learn_scores
from app.rating.judges.peoples_votes import PeoplesVotes
from app.rating.judges.random_part import ALPHA, RandomPart, check_random_part
from app.rating.judges.verdicts import Verdicts, read_verdicts
from app.rating.model.crowd import laplacian
from app.rating.plain.m_elo import shift_projector
from app.rating.uncertainty.covariance import TINY, Covariance
from app.rating.uncertainty.influence import find_influence
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.cells import find_places

FEWEST_SHARED = 30  # votes of people on judged battles
ASSUMED = 50.0  # people whose votes would tell as well what judges take off each error as all votes do on the whole
RANK = 1e-9  # share of the judges' largest variance below which a direction is a copy's


class Mix(NamedTuple):
    """How much of each judge's surprise is taken from the people's.

    Attributes
    ----------
    weight : λ, shape (n_judges,)
    explained : share of the variance of people's surprises that the judges' explain, less what chance would
    inflation : by which the variance that is left has to be multiplied, because the same votes gave λ
    """

    weight: Floats
    explained: float
    inflation: float


@dataclass(frozen=True)
class Sharpened:
    """The leaderboard of people and judges together.

    Attributes
    ----------
    people : their own; where several saw one battle, its intervals say so
    rating : of people and judges; None where it is refused
    notice : why it is refused
    votes : of people, on which the people's leaderboard rests
    worth : how many votes of people alone would tell the models' differences as well; NaN where it is refused
    shared, judged : battles that people and judges saw, that judges saw
    part : whether the first are a random part of the second
    by_propensity : whether they are one only with inverse propensities
    mix : how the judges are used
    judges : indices of those in the mix
    """

    people: Rating
    rating: Rating | None
    notice: RatingNotice | None
    votes: float
    worth: float
    shared: int
    judged: int
    part: RandomPart | None
    by_propensity: bool
    mix: Mix | None
    judges: Indices

    def account(self) -> dict[str, Any]:
        """Return by how many battles people and judges are put together, as plain data."""
        return {
            "judged_battles": self.judged,
            "people_battles": self.shared,
            "random_part_p": None if self.part is None else self.part.p,
            "by_propensity": self.by_propensity,
        }


def sharpen(peoples: Rating, ballots: Ballots, human: Mask) -> Sharpened:
    """Take from the people's scores what the judges' verdicts on the same battles say of their errors.

    R = R_people − Σ_k λ_k A g_k, g_k = Σ over people's votes of x_k (e_a − e_b), x_k the surprise of judge k's verdict
    on the battle by its own scores. The mean of g_k over all random parts of k's battles is 0, whatever the judge is.
    A is the inverse information of the people's votes, λ the regression of people's surprises on the judges'.

    Parameters
    ----------
    peoples : their leaderboard, with intervals
    ballots : of people and judges
    human : shape (n_annotators,)

    References
    ----------
    Angelopoulos, Duchi and Zrnic, PPI++ (2023), for λ; Angelopoulos et al., Prediction-powered inference (2023).
    """
    try:
        known = learn_scores(peoples)
    except VotesError:  # they do not tell the models apart
        known = NO_SCORES
    votes, verdicts = PeoplesVotes.read(peoples, known, ballots, human), read_verdicts(ballots, ~human)
    peoples, bread = _join_shared_battles(peoples, votes)
    judged, total = verdicts.judged, float(peoples.cells.n_votes)
    on_judged = judged[votes.battle]
    shared, few = len(np.unique(votes.battle[on_judged])), int(on_judged.sum())
    found = Sharpened(peoples, None, None, total, np.nan, shared, int(judged.sum()), None, False, None, verdicts.judges)
    if few < FEWEST_SHARED or peoples.covariance is None:
        detail = f"{counted(few, 'vote')} of people are on battles that judges saw; {FEWEST_SHARED} are needed"
        return replace(found, notice=RatingNotice("few-shared-battles", detail))
    part, control = _find_part(ballots, human, verdicts, votes)
    found = replace(found, part=part, by_propensity=control is not None)
    if part.p < ALPHA:
        detail = (
            "the battles that people voted on are no random part of those that judges saw, so judges cannot sharpen "
            f"the people's leaderboard: they differ in {part.differs} (p = {part.p:.1g})"
        )
        return replace(found, notice=RatingNotice("battles-not-random", detail))
    control = votes.weight if control is None else control
    rating, mix, ratio = _combine(peoples, peoples.covariance, bread, votes, verdicts, control)
    if ratio >= 1.0:  # judges that tell nothing
        rating, mix, ratio = peoples, mix._replace(weight=0.0 * mix.weight, explained=0.0, inflation=1.0), 1.0
    return replace(found, rating=rating, worth=total / ratio, mix=mix)


def _join_shared_battles(peoples: Rating, votes: PeoplesVotes) -> tuple[Rating, Floats]:
    """Return the people's leaderboard with the errors of shared battles, and what a unit of a vote's gradient moves."""
    spread, n = peoples.covariance, peoples.small.cells.n
    if spread is None:
        return peoples, np.zeros((0, 0))
    influence = find_influence(peoples)
    bread = influence.bread * float(influence.pull @ n / n.sum())
    added = bread @ votes.of_shared_battles() @ bread.T
    if spread.by_prompt is not None or not added.any():  # votes on one battle are on one prompt
        return peoples, bread
    spread = replace(spread, scores=spread.scores + added, order=spread.order + added)
    return publish(replace(peoples, covariance=spread)), bread


def _find_part(
    ballots: Ballots, human: Mask, verdicts: Verdicts, votes: PeoplesVotes
) -> tuple[RandomPart, Floats | None]:
    """Test whether people's battles are a random part, and with which weights, shape (n_votes,); None: as they are.

    Where they are none as they are, and every pair was drawn with a known probability, a vote weighs as the judged
    battles on its pair by this probability.
    """
    v, battles, size = ballots.votes, len(verdicts.first), len(ballots.votes.models)
    judged, voted, style = verdicts.judged, human[v.annotator], None
    if ballots.style is not None:  # people's votes say it of their own battles alone, and of one side
        style = _mean_by(ballots.battle[~voted], np.abs(ballots.style.values[~voted]), battles)
    everyone = sum_by(ballots.battle[voted], ballots.weight[voted], battles)
    part = check_random_part(verdicts, everyone, style, drawn=False)
    voted &= judged[ballots.battle]
    if part.p >= ALPHA or v.propensity is None or not (v.propensity[voted] > 0.0).all():
        return part, None
    on_pair = np.bincount((verdicts.first * size + verdicts.second)[judged], minlength=size * size)
    inverse = ballots.weight[voted] * on_pair[ballots.pair[voted]] / v.propensity[voted]
    drawn = sum_by(ballots.battle[voted], inverse / inverse.mean(), battles)
    part = check_random_part(verdicts, drawn, style, drawn=True)
    of_vote = np.divide(drawn, everyone, out=np.zeros(battles), where=everyone > 0.0)
    return part, votes.weight * of_vote[votes.battle]


def _mean_by(battle: Indices, values: Floats, battles: int) -> Floats:
    """Return the mean of each battle's measures, NaN where no vote has them, shape (n_battles, n_features)."""
    known = np.isfinite(values)
    sums, number = (
        np.stack([sum_by(battle, column, battles) for column in part.T], axis=1)
        for part in (np.where(known, values, 0.0), known * 1.0)
    )
    means: Floats = np.divide(sums, number, out=np.full(sums.shape, np.nan), where=number > 0.0)
    return means


def _combine(
    peoples: Rating, spread: Covariance, bread: Floats, votes: PeoplesVotes, verdicts: Verdicts, control: Floats
) -> tuple[Rating, Mix, float]:
    """Return the leaderboard of people and judges together, how it uses the judges, and its share of the variance.

    Parameters
    ----------
    spread : the people's
    bread : what a unit of a vote's gradient moves the scores by, shape (n_models, n_models)
    control : weights of people's votes in the sums over their battles, shape (n_votes,)
    """
    small, size = peoples.small, len(peoples.small.models)
    place = find_places(small.models, len(peoples.identified)).astype(np.int64)
    first, second = place[verdicts.first], place[verdicts.second]
    seen = verdicts.seen & ((first >= 0) & (second >= 0))[:, None]
    x = np.where(seen, verdicts.surprise, 0.0)
    many = sum_by(votes.battle, control, len(x))
    expected = many @ seen / np.maximum(seen.sum(axis=0), 1)  # weight of people's votes on a battle of each judge
    said = control[:, None] * x[votes.battle]
    # what a vote adds to the sum, which is 0 over all battles of the judge; and a battle without a vote of people
    own = said * (1.0 - expected / np.maximum(many[votes.battle], TINY)[:, None])
    rest = np.where((many == 0.0)[:, None], -expected * x, 0.0)
    label = peoples.components.label[small.models]
    calm = votes.inverse(label)
    moved = calm @ votes.push(own)
    through = own - votes.variance[:, None] * (moved[votes.first] - moved[votes.second])
    shared = float(np.count_nonzero(seen[votes.battle].any(axis=1)))
    mix = find_mix(votes.surprise, through, through.T @ through + rest.T @ rest, shared)
    R = peoples.fit.R - calm @ votes.push(said) @ mix.weight
    crossed, squared = votes.crossed(through @ mix.weight)
    unseen = (rest @ mix.weight) ** 2
    some = np.flatnonzero(unseen)
    squared += laplacian(sum_by(first[some] * size + second[some], unseen[some], size * size).reshape(size, size))
    half = bread @ crossed @ calm.T
    change = calm @ squared @ calm.T - half - half.T
    squares = sum_by(votes.pair, votes.surprise**2, size * size).reshape(size, size)
    by_vote = bread @ laplacian(squares) @ bread.T
    covariance = _steady(spread, change, by_vote, mix, label, 2.0 * len(votes.weight) / size)
    ratio = float(_variance_ratios(label, spread.scores, covariance.scores).mean())
    return publish(replace(peoples, fit=replace(peoples.fit, R=R), covariance=covariance)), mix, ratio


def _steady(spread: Covariance, change: Floats, by_vote: Floats, mix: Mix, label: Indices, votes: float) -> Covariance:
    """Return the people's covariance after a change, the less by itself the fewer people tell it.

    Sums over few people take off much too little here and too much there. What the judges explain of votes on the whole
    is known better; it stands in for the change with the weight of 50 people. No difference of scores, and no other
    contrast, is taken to be known less well than by the people alone, or so much better than the others: what says so
    is the luck of few people too.

    Parameters
    ----------
    by_vote : covariance of the scores if votes were independent, shape (n_models, n_models)
    votes : of people on a model
    """
    alone = float(_variance_ratios(label, spread.scores, by_vote).mean())  # the rest is how people differ
    left = 1.0 - mix.explained * min(alone, 1.0)
    known = min(float(np.median(spread.freedom)), votes)
    whole = ASSUMED / (ASSUMED + known)

    def mixed(before: Floats) -> Floats:
        found = (1.0 - whole) * mix.inflation * (before + change) + whole * left * before
        return _limit(found, before, label, left / 2.0)

    return replace(spread, scores=mixed(spread.scores), order=mixed(spread.order))


def _limit(found: Floats, before: Floats, label: Indices, least: float) -> Floats:
    """Limit the variance of every contrast to between `least` times and all of what it was before."""
    shifts, vectors = np.linalg.eigh(shift_projector(label))
    contrasts = vectors[:, shifts < 0.5]  # noqa: PLR2004  they are 0 or 1
    variances, directions = np.linalg.eigh(contrasts.T @ before @ contrasts)
    some = variances > RANK * variances.max(initial=0.0)
    root = contrasts @ directions[:, some] * np.sqrt(variances[some])
    inverse = contrasts @ directions[:, some] / np.sqrt(variances[some])
    share, own = np.linalg.eigh(inverse.T @ found @ inverse)
    kept: Floats = found + (root @ own * (np.clip(share, least, 1.0) - share)) @ (root @ own).T
    return kept


def find_mix(surprise: Floats, control: Floats, product: Floats, number: float) -> Mix:
    """Regress people's surprises on the judges', shrunk: λ = M⁺ c, c drawn to a multiple of 1, and that to 0.

    So judges who say the same count as one, and useless ones not at all. Both parts are shrunk as by James and Stein,
    by what chance alone would give as a share of what was found.

    Parameters
    ----------
    surprise : of people's votes, shape (n_votes,)
    control : the judges', shape (n_votes, n_judges)
    product : M, the variance of the judges' sums, shape (n_judges, n_judges)
    number : votes of people that judges say something of
    """
    c, total = control.T @ surprise, max(float(surprise @ surprise), TINY)
    values, vectors = np.linalg.eigh(product)
    some = values > RANK * max(float(values.max(initial=0.0)), TINY)
    inverse = (vectors[:, some] / values[some]) @ vectors[:, some].T
    rank = int(some.sum())
    noise = max(total - float(c @ inverse @ c), 0.0) / max(number - rank, 1.0)
    ones = product @ inverse @ (np.diag(product) > TINY)
    common = ones * float(ones @ inverse @ c) / max(float(ones @ inverse @ ones), TINY)
    shrunk, used = np.zeros(len(c)), 0.0
    for part, free in ((common, min(rank, 1)), (c - common, max(rank - 1, 0))):
        found = float(part @ inverse @ part)
        kept = max(1.0 - free * noise / found, 0.0) if free and found > TINY else 0.0
        shrunk, used = shrunk + kept * part, used + kept * free
    weight = inverse @ shrunk
    gain, by_chance = float(2.0 * weight @ c - weight @ product @ weight), 2.0 * used * noise
    left = max(total - gain, TINY)
    return Mix(weight, (gain - by_chance) / total, (left + by_chance) / left)


def _variance_ratios(label: Indices, before: Floats, after: Floats) -> Floats:
    """Return the ratio of the variances of each difference of two scores of one component, shape (n_pairs,)."""
    i, j = np.triu_indices(len(label), 1)
    i, j = i[label[i] == label[j]], j[label[i] == label[j]]
    old, new = (np.diag(one)[i] + np.diag(one)[j] - 2.0 * one[i, j] for one in (before, after))
    ratios: Floats = new[old > TINY] / old[old > TINY]
    return ratios
