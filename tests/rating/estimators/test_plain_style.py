"""m-ELO with features, and with clusters of votes that hang together, against a naive twin of dense matrices."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from app.rating.errors import VotesError
from app.rating.units import ELO_PER_NATURAL
from stable_arena import BradleyTerry, Elo
from tests.fixtures.errors import having

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
MODELS = 4


@pytest.fixture(scope="module")
def votes() -> dict[str, Any]:
    """Votes of 90 sessions without annotators, which like the longer answer."""
    rng, n = np.random.default_rng(5), 700
    a = rng.integers(0, MODELS, n)
    b = (a + rng.integers(1, MODELS, n)) % MODELS
    length = rng.integers(50, 400, (n, 2)).astype(float)
    x = (length[:, 0] - length[:, 1]) / length.sum(axis=1)
    p = 1.0 / (1.0 + np.exp(-(0.4 * (b - a) + 1.2 * x)))
    winner = np.where(rng.random(n) < 0.1, 0.5, (rng.random(n) < p).astype(float))
    return {
        "model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b], "winner": winner,
        "length_a": length[:, 0], "length_b": length[:, 1], "cluster": [f"s{i}" for i in rng.integers(0, 90, n)],
    }  # fmt: skip


def twin(votes: dict[str, Any], *, clusters: list[str], weight: np.ndarray, features: bool) -> tuple[Any, ...]:
    """Return scores, the worth of length and the standard errors of both, in Elo points."""
    n = len(weight)
    x = (votes["length_a"] - votes["length_b"]) / (votes["length_a"] + votes["length_b"])
    X = np.zeros((n, MODELS + features))
    X[np.arange(n), [int(name[1]) for name in votes["model_a"]]] = 1.0
    X[np.arange(n), [int(name[1]) for name in votes["model_b"]]] = -1.0
    if features:
        X[:, -1] = x / np.sqrt(np.average(x**2, weights=weight))
    beta = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-X @ beta))
        inverse = np.linalg.pinv(X.T @ ((weight * p * (1.0 - p))[:, None] * X))
        beta += inverse @ X.T @ (weight * (votes["winner"] - p))
    names = sorted(set(clusters))
    G = np.zeros((len(names), X.shape[1]))
    np.add.at(G, [names.index(one) for one in clusters], X * (weight * (votes["winner"] - p))[:, None])
    se = np.sqrt(np.diag(inverse @ (G.T @ G) @ inverse) * len(names) / (len(names) - 1))
    scores = 1000.0 + ELO_PER_NATURAL * (beta[:MODELS] - beta[:MODELS].mean())
    return scores, ELO_PER_NATURAL * beta[MODELS:], ELO_PER_NATURAL * se


@pytest.mark.parametrize("weighted", [False, True])
def test_style_by_m_elo_is_the_twin_s(votes: dict[str, Any], weighted: bool) -> None:
    weight = np.random.default_rng(1).integers(1, 4, len(votes["winner"])).astype(float) if weighted else None
    table = votes | ({} if weight is None else {"weight": weight})
    fitted = BradleyTerry(features=("length",)).fit(table)
    often = np.ones(len(votes["winner"])) if weight is None else weight
    scores, worth, se = twin(votes, clusters=votes["cluster"], weight=often, features=True)
    board = {row["model"]: row for row in fitted.leaderboard.iter_rows(named=True)}
    assert [board[f"m{i}"]["score"] for i in range(MODELS)] == pytest.approx(scores, abs=1e-6)
    assert [board[f"m{i}"]["se"] for i in range(MODELS)] == pytest.approx(se[:MODELS], rel=1e-6)
    (style,) = fitted.style.iter_rows(named=True)
    assert (style["points"], style["se"]) == pytest.approx((worth[0], se[-1]), rel=1e-6)
    assert style["spread"] is None
    assert fitted.plain_ is not None
    assert style["lower"] < style["points"] < style["upper"]


def test_annotators_are_clusters_where_there_are_some(votes: dict[str, Any]) -> None:
    named = {**votes, "annotator": votes["cluster"], "cluster": ["x"] * len(votes["cluster"])}
    by_annotator, by_session = (BradleyTerry(features=("length",)).fit(table) for table in (named, votes))
    assert by_annotator.style.equals(by_session.style)


def test_without_clusters_every_vote_is_one(votes: dict[str, Any]) -> None:
    table = {name: column for name, column in votes.items() if name != "cluster"}
    alone = [str(i) for i in range(len(votes["winner"]))]
    se = twin(votes, clusters=alone, weight=np.ones(len(alone)), features=True)[2]
    fitted = BradleyTerry(features=("length",)).fit(table)
    assert fitted.style["se"][0] == pytest.approx(se[-1], rel=1e-6)
    without = BradleyTerry(features=("length",), interval="none").fit(table)
    assert (without.style["points"][0], without.style["se"][0]) == (pytest.approx(fitted.style["points"][0]), None)
    named = {**table, "annotator": alone, "propensity": np.ones(len(alone))}
    with pytest.raises(ValueError, match="inverse_propensity"):
        BradleyTerry(features=("length",), inverse_propensity=True).fit(named)
    with pytest.raises(ValueError, match="interval"):
        BradleyTerry(features=("length",), interval="sandwich").fit(table)
    with pytest.raises(VotesError, check=having(code="value")):
        BradleyTerry(features=("length",)).fit({**table, "length_b": table["length_a"]})


def test_halves_of_a_soft_verdict_hang_together(votes: dict[str, Any]) -> None:
    """Each vote is two rows, of a probability and the rest: the errors are those of the probabilities."""
    p = np.clip(votes["winner"], 0.2, 0.7)
    number = len(p)
    twice = {name: [*column, *column] for name, column in votes.items()}
    twice |= {"winner": [1.0] * number + [0.0] * number, "weight": [*p, *(1.0 - p)], "cluster": [*range(number)] * 2}
    fitted = BradleyTerry().fit({name: np.array(column) for name, column in twice.items()})
    soft = {**votes, "winner": p}
    scores, _, se = twin(soft, clusters=[str(i) for i in range(number)], weight=np.ones(number), features=False)
    board = {row["model"]: row for row in fitted.leaderboard.iter_rows(named=True)}
    assert [board[f"m{i}"]["score"] for i in range(MODELS)] == pytest.approx(scores, abs=1e-6)
    assert [board[f"m{i}"]["se"] for i in range(MODELS)] == pytest.approx(se, rel=1e-6)


TIMES = {
    "numbers": [30.0, 10.0, 20.0], "dates": ["2026-01-03", "2026-01-01", "2026-01-02T10:00:00Z"],
}  # fmt: skip


@pytest.mark.parametrize("kind", TIMES)
def test_elo_as_recorded_follows_the_times(kind: str) -> None:
    table = {"model_a": ["x", "x", "y"], "model_b": ["y", "z", "z"], "winner": ["model_a", "model_b", "both_bad"]}
    given = Elo(shuffles=2).fit({**table, "timestamp": TIMES[kind]})
    sorted_by_hand = {name: [column[i] for i in (1, 2, 0)] for name, column in table.items()}
    assert given.leaderboard.equals(Elo(shuffles=2).fit(sorted_by_hand).leaderboard)
    assert not given.leaderboard.equals(Elo(shuffles=2).fit(table).leaderboard)


@pytest.mark.parametrize("times", [["2026-01-01", None, "2026-01-02"], ["one", "two", "three"]])
def test_elo_without_all_times_follows_the_rows(times: list[str | None]) -> None:
    table = {"model_a": ["x", "x", "y"], "model_b": ["y", "z", "z"], "winner": ["model_a", "model_b", "both_bad"]}
    kept = pl.DataFrame({**table, "timestamp": times})
    assert Elo(shuffles=2).fit(kept).leaderboard.equals(Elo(shuffles=2).fit(pl.DataFrame(table)).leaderboard)


def test_a_vote_without_a_cluster_is_alone(votes: dict[str, Any]) -> None:
    clusters = [None if i % 3 else name for i, name in enumerate(votes["cluster"])]
    filled = [name or f"alone {i}" for i, name in enumerate(clusters)]
    fits = [
        BradleyTerry(features=("length",)).fit(pl.DataFrame({**votes, "cluster": one})) for one in (clusters, filled)
    ]
    assert fits[0].style["se"][0] == pytest.approx(fits[1].style["se"][0], rel=1e-9)


def test_words_of_files_are_words_of_tables() -> None:
    winners = {"both_bad": "tie (bothbad)", "Left": "model_a", " draw": "tie", "B": "model_b"}
    table = {"model_a": ["x"] * 4, "model_b": ["y"] * 4}
    said, plain = (BradleyTerry().fit({**table, "winner": [*words]}) for words in (winners, winners.values()))
    assert said.leaderboard.equals(plain.leaderboard)
