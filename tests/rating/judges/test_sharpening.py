"""The leaderboard of people and judges together."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh, orth
from scipy.optimize import minimize

from app.rating.judges import sharpening
from app.rating.judges.ballots import Ballots
from app.rating.judges.peoples_scores import learn_scores, rate_people
from app.rating.judges.peoples_votes import PeoplesVotes
from app.rating.judges.sharpening import Sharpened, find_mix, sharpen
from app.rating.judges.verdicts import read_verdicts
from app.rating.settings import LoopSettings
from app.rating.uncertainty.centre import weigh_models
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating
from app.rating.votes.measures import Features
from tests.fixtures.judged_arena import JudgedArena, draw, make_arena

POINTS = 400.0 / np.log(10.0)


def sharpened(ballots: Ballots, human: np.ndarray, **settings: object) -> Sharpened:
    peoples = rate_people(ballots.of_annotators(human), replace(LoopSettings(), **settings))
    return sharpen(peoples, ballots, human)


def rating_of(found: Sharpened) -> Rating:
    assert found.rating is not None, found.notice
    return found.rating


def widths(rating: Rating) -> np.ndarray:
    return (rating.models.upper - rating.models.lower)[rating.identified]


def covered(rating: Rating, truth: np.ndarray) -> float:
    """Return the share of the models whose interval holds the true score, centred as the leaderboard is."""
    here = rating.identified
    centre = float(weigh_models(rating)[here] @ truth[here])
    points = 1000.0 + ELO_PER_NATURAL * (truth - centre)
    return float(np.mean(((rating.models.lower < points) & (points < rating.models.upper))[here]))


@pytest.fixture(scope="module")
def arena() -> JudgedArena:
    return make_arena(1, "usual")


@pytest.fixture(scope="module")
def truth(arena: JudgedArena) -> np.ndarray:
    return arena.truth()


@pytest.fixture(scope="module")
def drawn(arena: JudgedArena) -> list[Sharpened]:
    """The leaderboards of 30 random parts of 300 battles."""
    return [sharpened(*arena.ask(seed, 300)) for seed in range(30)]


def test_a_judges_surprise_is_what_its_scores_and_lean_do_not_expect(arena: JudgedArena) -> None:
    ballots, human = arena.ask(1, 300)
    found = read_verdicts(ballots, ~human)
    W, a, b = arena.verdicts["judge 1"], arena.left, arena.right

    def objective(x: np.ndarray) -> float:
        d = x[a] - x[b] + x[-1]
        return float(np.sum(np.logaddexp(0.0, d) - W * d) + x[-1] ** 2 / 18.0)

    x = minimize(objective, np.zeros(13), method="BFGS", tol=1e-9).x
    expected = W - 1.0 / (1.0 + np.exp(-(x[a] - x[b] + x[-1])))
    first = np.zeros(int(ballots.battle.max()) + 1)
    mine = ballots.votes.annotator == found.judges[1]
    first[ballots.battle[mine]] = np.where(a < b, 1.0, -1.0) * expected
    assert found.surprise[:, 1] == pytest.approx(first, abs=1e-3)
    total = np.zeros(12)
    np.add.at(total, found.first, found.surprise[:, 1])
    np.add.at(total, found.second, -found.surprise[:, 1])
    assert total == pytest.approx(np.zeros(12), abs=1e-6)


def test_the_scores_are_those_of_the_formula(arena: JudgedArena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vote by vote: R_people − A Σ λ x (e_a − e_b); and the covariance, summed over people, as if they were many."""
    monkeypatch.setattr(sharpening, "ASSUMED", 0.0)
    ballots, human = arena.ask(2, 400, each=4)
    found = sharpened(ballots, human, method="m-elo")
    rating, people, mix = rating_of(found), found.people, found.mix
    assert mix is not None
    assert people.covariance is not None
    assert rating.covariance is not None
    verdicts, v, known = read_verdicts(ballots, ~human), ballots.votes, learn_scores(people)
    assert len(known.models) == 12
    A, g, rows = np.zeros((12, 12)), np.zeros(12), []
    votes = [i for i in range(len(v.outcome)) if human[v.annotator[i]]]
    for i in votes:
        e = np.eye(12)[v.model_a[i]] - np.eye(12)[v.model_b[i]]
        q = 1.0 / (1.0 + np.exp(-(e @ known.score)))
        A += q * (1.0 - q) * np.outer(e, e)
        x = verdicts.surprise[ballots.battle[i]] * (1.0 if v.model_a[i] < v.model_b[i] else -1.0)
        g += (mix.weight @ x) * e
        rows.append((e, v.annotator[i], v.outcome[i] - 1.0 / (1.0 + np.exp(-(e @ people.fit.R))), mix.weight @ x, q))
    A = np.linalg.pinv(A)
    moved = rating.fit.R - people.fit.R
    assert moved == pytest.approx(-A @ g, abs=1e-8)
    assert np.abs(moved).max() > 0.05

    f = len(votes) / 4000
    shift = (1.0 - f) * A @ g
    S = sum((p := 1.0 / (1.0 + np.exp(-(e @ people.fit.R)))) * (1.0 - p) * np.outer(e, e) for e, *_ in rows)
    B = np.linalg.pinv(S)
    share = np.zeros((int(human.sum()), 12))
    for e, k, _, _, q in rows:
        share[k] += q * (1.0 - q) * np.abs(e)
    scale = 1.0 / np.sqrt(1.0 - np.minimum(share / share.sum(axis=0), 0.8))
    U, Y = np.zeros((2, int(human.sum()), 12))
    for e, k, u, y, q in rows:
        U[k] += u * e * scale[k]
        Y[k] += ((1.0 - f) * y - q * (1.0 - q) * (e @ shift)) * e * scale[k]
    voted = np.isin(np.arange(len(verdicts.first)), ballots.battle[votes])
    rest = f**2 * (verdicts.surprise[~voted] @ mix.weight) ** 2
    e = np.eye(12)[verdicts.first[~voted]] - np.eye(12)[verdicts.second[~voted]]
    change = A @ (Y.T @ Y + (e * rest[:, None]).T @ e) @ A - B @ U.T @ Y @ A - A @ Y.T @ U @ B
    freely = mix.inflation * (people.covariance.scores + change)
    Q = orth(people.covariance.scores, rcond=1e-9)
    limit = Q.T @ people.covariance.scores @ Q
    excess, X = eigh(Q.T @ freely @ Q, limit)
    assert excess[-1] > 1.0, "in one direction the judges would take from what people know"
    expected = Q @ limit @ X @ np.diag(np.minimum(excess, 1.0)) @ X.T @ limit @ Q.T
    assert rating.covariance.scores == pytest.approx(expected, abs=1e-6)


def test_of_few_people_what_judges_explain_on_the_whole_stands_in(
    arena: JudgedArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharpening, "ASSUMED", 1e9)
    found = sharpened(*arena.ask(2, 400, each=4))
    ratio = np.square(widths(rating_of(found)) / widths(found.people))
    assert found.mix is not None
    assert ratio == pytest.approx(np.full(12, ratio[0]), rel=1e-6)
    assert 1.0 - found.mix.explained - 1e-6 <= ratio[0] < 1.0
    assert found.worth == pytest.approx(400.0 / ratio[0], rel=1e-6)


def test_one_judge_under_five_names_is_one(arena: JudgedArena) -> None:
    first, second = list(arena.verdicts.values())[:2]
    once = replace(arena, verdicts={"a": first, "b": second})
    names = {f"a{k}": first for k in range(5)}
    for votes in (200, 1000):
        one, five = (sharpened(*each.ask(3, votes)) for each in (once, replace(arena, verdicts={**names, "b": second})))
        assert rating_of(five).models.score == pytest.approx(rating_of(one).models.score, abs=1e-6)
        assert rating_of(five).models.lower == pytest.approx(rating_of(one).models.lower, abs=1e-6)
        assert five.worth == pytest.approx(one.worth)


def test_sides_and_names_do_not_matter(arena: JudgedArena) -> None:
    ballots, human = arena.ask(4, 300)
    v, turned = ballots.votes, np.random.default_rng(1).random(len(ballots.battle)) < 0.5
    swapped = replace(
        v, model_a=np.where(turned, v.model_b, v.model_a), model_b=np.where(turned, v.model_a, v.model_b),
        outcome=np.where(turned, 1.0 - v.outcome, v.outcome),
    )  # fmt: skip
    plain = {"judge 0": draw(np.random.default_rng(2), np.zeros(4000), 0.0)}  # no lean that the sides would tell
    one = sharpened(ballots.where(human[v.annotator]), human)
    assert one.notice is not None
    assert one.notice.code == "few-shared-battles"
    renamed = replace(arena, verdicts={**arena.verdicts, **plain})
    a, b = (sharpened(*each.ask(4, 300)) for each in (arena, renamed))
    assert rating_of(a).models.score == pytest.approx(rating_of(b).models.score, abs=40.0)
    there = sharpened(replace(ballots, votes=swapped), human)
    assert rating_of(there).models.score == pytest.approx(rating_of(a).models.score, abs=15.0), "leans are hardly known"


@pytest.mark.parametrize("kind", ["useless", "length", "side"])
def test_judges_who_tell_nothing_widen_nothing(kind: str) -> None:
    arena = make_arena(2, kind)
    ratios = []
    for seed in range(5):
        found = sharpened(*arena.ask(seed, 200))
        ratios.append(widths(rating_of(found)) / widths(found.people))
        assert 200.0 <= found.worth < 230.0
    assert np.max(ratios) <= 1.0 + 1e-6, "no model's interval is wider"
    assert np.mean(ratios, axis=1).min() > 0.93


def test_good_judges_are_worth_votes_of_people() -> None:
    arena, votes = make_arena(3, "good"), 500
    found = [sharpened(*arena.ask(seed, votes)) for seed in range(10)]
    truth = arena.truth()
    errors = [
        [np.square((one.fit.R - one.fit.R.mean() - truth) / each.people.models.se).mean() for one in boards]
        for each in found
        for boards in [(each.people, rating_of(each))]
    ]
    people, together = np.mean(errors, axis=0)
    assert 1.03 < people / together < 1.6
    assert 1.1 < np.mean([each.worth for each in found]) / votes < 1.35
    assert all(each.shared == votes and each.judged == 4000 for each in found)


def test_the_intervals_cover_the_people_s_scores(drawn: list[Sharpened], truth: np.ndarray) -> None:
    assert 0.92 < np.mean([covered(rating_of(one), truth) for one in drawn]) < 0.99


def test_a_random_part_is_seldom_refused(drawn: list[Sharpened]) -> None:
    p = np.array([found.part.p for found in drawn if found.part])
    assert len(p) == 30
    assert np.mean(p < 0.2) < 0.35
    assert p.min() > 1e-3


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["usual", "good", "useless", "length", "side", "copies", "contrary"])
@pytest.mark.parametrize("votes", [200, 1000, 3000])
def test_the_intervals_cover_whatever_the_judges_are(kind: str, votes: int) -> None:
    judges = 5 if kind == "copies" else 3
    inside, ratio, worth = [], [], []
    for world in range(4):
        arena = make_arena(100 + world, kind, n_models=20, battles=27_000, judges=judges)
        truth = arena.truth()
        for seed in range(40):
            found = sharpened(*arena.ask(seed, votes))
            if found.rating is None:
                continue  # one random part in a thousand is refused
            inside.append([covered(one, truth) for one in (found.people, rating_of(found))])
            ratio.append(widths(rating_of(found)) / widths(found.people))
            worth.append(found.worth / votes)
    alone, together = np.mean(inside, axis=0)
    narrower = np.mean(np.concatenate(ratio))
    print(f"{kind} {votes}: {alone:.3f} {together:.3f} width {narrower:.3f} worth {np.mean(worth):.2f}")
    assert len(inside) >= 158
    assert 0.93 <= together <= max(0.97, alone + 0.005), (alone, together)
    assert max(one.max() for one in ratio) <= 1.0 + 1e-6


def test_battles_that_several_people_saw_are_no_independent_ones(arena: JudgedArena, truth: np.ndarray) -> None:
    """Three people on each of 150 battles: their answers hang together, and judges say one thing of the three."""
    inside = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        some = np.repeat(generator.choice(4000, 150, replace=False), 3)
        said = draw(generator, arena.person[some], 0.3)
        ballots, human = arena.put_together(some, said, generator.permutation(450) // 15)
        found = sharpened(ballots, human)
        peoples = rate_people(ballots.of_annotators(human), LoopSettings())
        inside.append([covered(one, truth) for one in (peoples, found.people, rating_of(found))])
    alone, people, together = np.mean(inside, axis=0)
    assert alone < people
    assert 0.91 < people < 0.99
    assert 0.91 < together < 0.99


def test_battles_chosen_by_what_judges_say_are_refused(arena: JudgedArena) -> None:
    first, second = list(arena.verdicts.values())[:2]
    for_one = np.where(((arena.left == 3) & (first == 1.0)) | ((arena.right == 3) & (first == 0.0)), 8.0, 1.0)
    chosen = {
        "how far they agree": np.where(first == second, 4.0, 1.0),
        "the models": np.where((arena.left < 4) | (arena.right < 4), 4.0, 1.0),
        "for which models": for_one,
    }
    for what, chance in chosen.items():
        found = sharpened(*arena.ask(5, 1000, chance=chance))
        assert found.rating is None
        assert found.notice is not None
        assert found.notice.code == "battles-not-random"
        assert what in found.notice.detail or what == "for which models"
        assert np.isnan(found.worth)
        assert found.people.models.score.shape == (12,)


def test_battles_chosen_by_length_are_refused(arena: JudgedArena) -> None:
    longer = np.abs(np.random.default_rng(1).standard_normal(4000))
    ballots, human = arena.ask(6, 1000, chance=1.0 + 2.0 * longer)
    voted = np.flatnonzero(human[ballots.votes.annotator])
    values = np.full(len(ballots.battle), np.nan)
    judges = ~human[ballots.votes.annotator]
    values[judges] = np.tile(longer, 3)
    assert len(voted) == 1000
    style = Features(("length",), values[:, None])
    assert sharpened(ballots, human).rating is not None
    signed = np.where(np.arange(len(values)) % 2, values, -values)  # judges see battles from both sides
    signed[human[ballots.votes.annotator]] = longer[ballots.battle[human[ballots.votes.annotator]]]
    even, everyone = arena.ask(6, 1000)
    assert sharpened(replace(even, style=Features(("length",), signed[:, None])), everyone).rating is not None
    found = sharpened(replace(ballots, style=style), human)
    assert found.notice is not None
    assert "the answers differ" in found.notice.detail


def test_known_propensities_mend_which_pairs_people_saw(arena: JudgedArena, truth: np.ndarray) -> None:
    """People see pairs of four models four times as often, as the policy says; else nothing differs."""
    few = (arena.left < 4) | (arena.right < 4)
    chance = np.where(few, 4.0, 1.0)
    key = np.minimum(arena.left, arena.right) * 12 + np.maximum(arena.left, arena.right)
    of_pair = np.bincount(key, chance / chance.sum(), 144)
    ballots, human = arena.ask(7, 1000, chance=chance)
    refused = sharpened(ballots, human)
    assert refused.notice is not None
    assert refused.notice.code == "battles-not-random"
    known = replace(ballots, votes=replace(ballots.votes, propensity=of_pair[ballots.pair]))
    found = sharpened(known, human)
    assert found.by_propensity
    assert found.worth > 1000.0
    assert covered(rating_of(found), truth) > 0.7


def test_people_with_many_votes_are_sharpened_too() -> None:
    """Then the rules of the loop rate the people: those past δ count alone."""
    arena = make_arena(4, "good")
    found = sharpened(*arena.ask(1, 1500, each=60))
    assert found.people.marginal is not None
    assert found.votes == 1500.0
    assert widths(rating_of(found)).mean() < 0.97 * widths(found.people).mean()


@pytest.mark.parametrize("prompts", [False, True])
def test_of_a_handful_of_people_no_interval_vanishes_or_grows(prompts: bool) -> None:
    for seed in range(3):
        ballots, human = make_arena(6, "usual", n_models=8).ask(seed, 300, each=50)
        if prompts:
            ballots = replace(ballots, votes=replace(ballots.votes, prompt=ballots.battle % 40))
        found = sharpened(ballots, human)
        ratios = widths(rating_of(found)) / widths(found.people)
        assert 0.6 < ratios.min() <= ratios.max() <= 1.0 + 1e-6
        assert 300.0 <= found.worth < 600.0


def test_more_models_than_people_s_votes_can_rate() -> None:
    arena = make_arena(5, "usual", n_models=50)
    found = sharpened(*arena.ask(1, 200))
    rating = rating_of(found)
    assert (~rating.identified).any()
    assert np.isfinite(rating.models.score[rating.identified]).all()
    assert np.array_equal(rating.identified, found.people.identified)


def test_judges_of_the_people_s_battles_alone_add_nothing(arena: JudgedArena) -> None:
    ballots, human = arena.ask(8, 400)
    here = np.isin(ballots.battle, ballots.battle[human[ballots.votes.annotator]])
    found = sharpened(ballots.where(here), human)
    assert found.shared == found.judged == 400
    assert found.worth == pytest.approx(400.0, rel=0.02)
    assert rating_of(found).models.score == pytest.approx(found.people.models.score, abs=1.0)


def test_useless_controls_get_no_weight_and_good_ones_nearly_theirs() -> None:
    generator = np.random.default_rng(1)
    x = generator.standard_normal((2000, 3))
    u = 0.5 * x[:, 0] + 0.2 * x[:, 1] + generator.standard_normal(2000)
    mix = find_mix(u, x, x.T @ x, 2000.0)
    assert mix.weight == pytest.approx([0.5, 0.2, 0.0], abs=0.06)
    assert mix.explained == pytest.approx(0.29 / 1.29, abs=0.04)
    assert 1.0 < mix.inflation < 1.01
    nothing = [find_mix(generator.standard_normal(2000), x, x.T @ x, 2000.0) for _ in range(40)]
    assert np.mean([np.square(one.weight).sum() for one in nothing]) < 0.7 * 3 / 2000
    assert abs(np.mean([one.explained for one in nothing])) < 1e-3
    empty = find_mix(np.ones(3), np.zeros((3, 0)), np.zeros((0, 0)), 3.0)
    assert empty.explained == 0.0
    assert empty.inflation == 1.0


def test_sums_over_votes_on_one_battle_leave_a_person_s_own_out(arena: JudgedArena) -> None:
    some = np.array([5, 5, 5, 9])
    votes = PeoplesVotes(
        12, np.array([0, 1, 1, 2]), some, arena.left[some], arena.right[some], np.ones(4), np.arange(4.0), np.ones(4)
    )
    products = votes.together(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert products[5] == 1.0 * 2.0 + 2.0 * 1.0 + 3.0 * 1.0
    assert products[9] == 0.0
