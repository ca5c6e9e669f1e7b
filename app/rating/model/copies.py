"""Near-copies among annotators: who answers the same battles alike far beyond what scores and abilities give.

A judge run five times, or one person under five keys, is five clusters for an error that takes annotators as
independent, and one in truth. What two annotators say beyond the scores, their residuals, is independent if they judge
by themselves; where they see the same answers it may go halfway together. Copies differ by next to nothing.

What is seen depends on what is known. With battles, each is compared. Without, an annotator's votes on a pair of models
are: copies have the same sum there, which two others hardly have on each of many pairs. Nothing is seen where copies
judge other battles, and nothing on pairs whose order is plain: there honest annotators agree as well.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.exchange import concatenated, deal, join, place_among, total
from app.rating.votes.cells import Cells
from app.rating.votes.graph import link

FEWEST = 20  # votes of an annotator from which copies are looked for
ALL_PAIRS = 300  # annotators up to which each is compared with each
APART = (0.5, 0.8)  # share of the variance of a difference that is left to honest annotators: at least, at most
ALIKE = 0.25  # of that share, below which two annotators may be copies
LEAST_RATIO = 0.01  # sums of many votes are whole numbers: that they are equal says no more than this
TAKEN = 2.0  # items that two abilities can make alike
ERROR = 0.01  # probability that any two honest annotators of a crowd are taken for copies
STEEPEST = 30.0  # own ability up to which an annotator is taken to follow the scores
NEWTON_STEPS, LONGEST, SMALL, WEAK = 20, 2.0, 1e-3, 1e-3
BINS, BAND = 24, 3  # of the signatures: smallest hashes of an annotator's answers
BITS, LARGEST, FACTORS, HALF = 31, (1 << 31) - 1, (0x2C1B3C6D, 0x297A2D39), 15  # of the hashes
MIXING = np.array([0x1F83D9AB5BE0CD19, 0x3C6EF372FE94F82B, 0x510E527FADE682D1])  # of a band's hashes, modulo 2⁶⁴
NEIGHBOURS = 20  # others with the same part of a signature that an annotator is compared with


class Answers(NamedTuple):
    """Answers by annotator, then item: a pair of models, or a battle.

    Attributes
    ----------
    starts : index of each annotator's first answer, and their number at the end, shape (n_annotators + 1,)
    item : what was answered, ascending within an annotator, shape (n_answers,)
    difference : R_a − R_b of its models, natural units
    n, s, ties : votes, the sum of W, and how many were ties; 0 where one of the models has no score
    """

    starts: Indices
    item: Indices
    difference: Floats
    n: Floats
    s: Floats
    ties: Floats

    @classmethod
    def of(cls, cells: Cells, R: Floats, battle: Indices | None = None) -> "Answers":
        """Return the answers of cells.

        Parameters
        ----------
        R : scores, NaN for models without one, shape (n_models,)
        battle : number of each cell's battle, for cells that have a row for each; default: its pair of models
        """
        cells = cells.merged()
        item = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b if battle is None else battle
        difference = R[cells.model_a] - R[cells.model_b]
        columns, known = [difference, cells.n, cells.s, cells.ties], np.isfinite(difference)
        if not known.all():
            columns = [np.where(known, each, 0.0) for each in columns]
        if battle is not None:
            order = np.lexsort((item, cells.annotator))
            item, columns = item[order], [each[order] for each in columns]
        return cls(cells.starts, item, *columns)

    def of_annotators(self, some: Indices) -> "Answers":
        """Return the answers of these annotators, numbered by their places."""
        begin, size = self.starts[some], np.diff(self.starts)[some]
        starts = np.append(0, np.cumsum(size))
        row = np.arange(starts[-1]) + np.repeat(begin - starts[:-1], size)
        return Answers(starts, *(column[row] for column in self[1:]))


def join_answers(parts: list[Answers]) -> Answers:
    """Return the answers of all parts as one."""
    size = np.concatenate([np.diff(part.starts) for part in parts])
    columns = (np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True))
    return Answers(np.append(0, np.cumsum(size)), *columns)


class Copies(NamedTuple):
    """Groups of near-copies.

    Attributes
    ----------
    cluster : number of each annotator's group, alone or with copies, shape (n_annotators,)
    shared : numbers of the groups with more than one annotator, in any part
    annotators : how many annotators are in these
    """

    cluster: Indices
    shared: Indices
    annotators: int

    @classmethod
    def of(cls, cluster: Indices, size: int) -> "Copies":
        """Return the groups with these numbers, of which those below `size` may have members in any part."""
        members = total(np.bincount(cluster[cluster < size], minlength=size))
        return cls(cluster, np.flatnonzero(members > 1), int(members[members > 1].sum()))

    @property
    def groups(self) -> int:
        """How many groups have more than one annotator."""
        return len(self.shared)


def find_copies(answers: Answers) -> Copies:
    """Group the annotators who are near-copies of each other.

    Two annotators with residuals u, u′ of the items that both answered are copies where Σ(u − u′)² is below a quarter
    of what honest annotators leave, and so small by chance with a probability below .01 among all pairs of the crowd
    (Chernoff's bounds for rare events and for a χ², whichever is weaker). Independent ones leave Σ(v + v′). Honest ones
    are taken to leave half of it, since they may see the same answers; where each is compared with each, up to .8 of
    it, as their median does. v = n p(1 − p) less what ties take, p at the annotator's own ability: so annotators who
    follow the scores, or always tie, have nothing that they could share.

    Up to 300 annotators each is compared with each, of more those who share twice three smallest hashes of their
    answers: copies with nine answers of ten in common nearly always. O(answers + compared pairs · their answers).
    """
    size = len(answers.starts) - 1
    votes = np.add.reduceat(np.append(answers.n, 0.0), answers.starts[:-1]) if size else np.empty(0)
    chosen = np.flatnonzero((votes >= FEWEST) & (np.diff(answers.starts) > 0))
    before, number = place_among(len(chosen))
    if number < 2:  # noqa: PLR2004  one has no copy
        return Copies.of(np.arange(size), 0)
    few = number <= ALL_PAIRS
    first, second = np.triu_indices(number, 1) if few else _choose_pairs(answers, chosen, before, number)
    asked = np.unique(np.append(first, second))
    own = chosen[asked[(asked >= before) & (asked < before + len(chosen))] - before]
    pairs = np.searchsorted(asked, first), np.searchsorted(asked, second)
    group = deal(partial(_find_groups, pairs=pairs, crowd=number), answers.of_annotators(own))
    cluster = np.arange(size) + len(asked)  # apart from the numbers of groups
    cluster[own] = group
    return Copies.of(cluster, len(asked))


def _find_groups(parts: list[Answers], pairs: tuple[Indices, Indices], crowd: int) -> list[Indices]:
    """Return a number for each annotator asked, the same for near-copies.

    Parameters
    ----------
    parts : answers of the annotators asked
    pairs : to be compared, as places among these
    crowd : how many annotators may be copies
    """
    answers, (first, second) = join_answers(parts), pairs
    group = np.arange(len(answers.starts) - 1)
    residual, variance = np.zeros((2, len(answers.item)))
    find_residuals(answers, group, residual, variance)
    measured = np.empty((len(first), 3))
    compare(answers.starts, answers.item, residual, variance, first, second, measured)
    unlike, expected, square = measured.T
    apart = APART[0]
    if crowd <= ALL_PAIRS and (some := expected > 0.0).any():
        apart = float(np.clip(APART[1] * np.median(unlike[some] / expected[some]), *APART))
    expected = apart * expected
    items = np.divide(expected**2, apart**2 * square, out=np.zeros_like(square), where=square > 0.0)
    ratio = np.maximum(np.divide(unlike, expected, out=np.ones_like(expected), where=expected > 0.0), LEAST_RATIO)
    rare = expected * (1.0 - ratio + ratio * np.log(ratio))
    spread = 0.5 * np.maximum(items - TAKEN, 0.0) * (ratio - 1.0 - np.log(ratio))
    needed = math.log(crowd * (crowd - 1) / 2.0 / ERROR)
    alike = (ratio < ALIKE) & (np.minimum(rare, spread) > needed)
    link(first[alike].astype(np.int32), second[alike].astype(np.int32), group)
    return np.split(group, np.cumsum([len(part.starts) - 1 for part in parts])[:-1])


def _choose_pairs(answers: Answers, chosen: Indices, before: int, number: int) -> tuple[Indices, Indices]:
    """Return the pairs of annotators, as places among the chosen of all parts, whose signatures agree in two bands.

    Parameters
    ----------
    before, number : how many the parts before this one have chosen, and all of them
    """
    signature = np.full((len(chosen), BINS), LARGEST)
    sign(answers, chosen, signature)
    found = []
    for band in range(0, BINS, BAND):
        part = signature[:, band : band + BAND]
        full = np.flatnonzero((part < LARGEST).all(axis=1))
        keys = np.stack([full + before, part[full] @ MIXING, signature[full, band - 1]])
        found.append(join(partial(_match, number=number), keys))
    pairs, bands = np.unique(np.concatenate(found), return_counts=True)
    pairs = pairs[bands > 1]
    return pairs // number, pairs % number


def _match(parts: list[Indices], number: int) -> Indices:
    """Return the pairs of annotators with the same key, but not of all that many share; first · number + second."""
    full, key, next_to = concatenated(parts)
    found = [np.empty(0, dtype=np.int64)]
    if (np.diff(np.sort(key)) == 0).any():  # sorting the keys alone takes a tenth of the time
        sequence = np.lexsort((next_to, key))
        order, key = full[sequence], key[sequence]
        for step in range(1, min(NEIGHBOURS, len(order) - 1) + 1):
            same = key[step:] == key[:-step]
            if not same.any():
                break
            one, other = order[:-step][same], order[step:][same]
            found.append(np.minimum(one, other) * number + np.maximum(one, other))
    return np.concatenate(found)


@compiled
def sign(answers: Answers, chosen: Indices, signature: Indices) -> None:
    """Set the smallest hash of each bin of an annotator's answers; `LARGEST` stays where a bin has none."""
    starts, item, n, s = answers.starts, answers.item, answers.n, answers.s
    for place in range(len(chosen)):
        mine = signature[place]
        for at in range(starts[chosen[place]], starts[chosen[place] + 1]):
            answer = 3 * item[at] + (2.0 * s[at] > n[at]) - (2.0 * s[at] < n[at])
            token = (answer & LARGEST) * FACTORS[0] & LARGEST
            token = (token ^ token >> HALF) * FACTORS[1] & LARGEST
            token ^= token >> HALF
            mine[token * BINS >> BITS] = min(mine[token * BINS >> BITS], token)


@compiled
def find_residuals(answers: Answers, chosen: Indices, residual: Floats, variance: Floats) -> None:
    """Set residual s − n p and its variance for the answers of these annotators, each at its own ability."""
    starts, difference, n, s = answers.starts, answers.difference, answers.n, answers.s
    for k in chosen:
        begin, end, theta = starts[k], starts[k + 1], 1.0
        for _ in range(NEWTON_STEPS):
            gradient, curvature = -WEAK * theta, WEAK
            for at in range(begin, end):
                d = difference[at]
                p = 1.0 / (1.0 + math.exp(-theta * d))
                gradient += d * (s[at] - n[at] * p)
                curvature += d * d * n[at] * p * (1.0 - p)
            step = min(max(gradient / curvature, -LONGEST), LONGEST)
            theta = min(max(theta + step, -STEEPEST), STEEPEST)
            if abs(step) < SMALL:
                break
        binomial, tied = WEAK, 0.0
        for at in range(begin, end):
            p = 1.0 / (1.0 + math.exp(-theta * difference[at]))
            residual[at], variance[at] = s[at] - n[at] * p, n[at] * p * (1.0 - p)
            binomial += variance[at]
            tied += answers.ties[at] / 4.0
        for at in range(begin, end):
            variance[at] *= max(1.0 - tied / binomial, 0.0)


@compiled
def compare(
    starts: Indices, item: Indices, residual: Floats, variance: Floats, first: Indices, second: Indices, found: Floats
) -> None:
    """Set Σ(u − u′)², Σ(v + v′) and Σ(v + v′)² over the items that both of a pair answered, shape (pairs, 3)."""
    for pair in range(len(first)):
        i, i_end = starts[first[pair]], starts[first[pair] + 1]
        j, j_end = starts[second[pair]], starts[second[pair] + 1]
        unlike, expected, square = 0.0, 0.0, 0.0
        while i < i_end and j < j_end:
            if item[i] < item[j]:
                i += 1
            elif item[j] < item[i]:
                j += 1
            else:
                both = variance[i] + variance[j]
                if both > 0.0:
                    unlike += (residual[i] - residual[j]) ** 2
                    expected += both
                    square += both * both
                i += 1
                j += 1
        found[pair, 0], found[pair, 1], found[pair, 2] = unlike, expected, square
