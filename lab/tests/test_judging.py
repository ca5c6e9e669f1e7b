"""The table of how annotators are judged: its versions, its cases, and the command."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from typer.testing import Result

from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.defences.gains import Contest
from stable_arena_lab.judging.cases import FOUND, AttackCase
from stable_arena_lab.judging.figures import Values, Versions, measure_rows
from stable_arena_lab.judging.fits import ATTACKERS, LIFTED, BudgetCase
from stable_arena_lab.judging.rows import ROWS
from stable_arena_lab.judging.targets import BEYOND, GAINED, WRONGED, find_target
from stable_arena_lab.judging.versions import BEFORE, BRADLEY_TERRY, EXCLUDED, NOW, VERSIONS, mark

RunLab = Callable[..., Result]
SETUP = Setup(n_annotators=40, votes_each=120)


@dataclass(frozen=True)
class Seeds:
    """A case that measures its seed."""

    name: str = "seeds"

    def try_seed(self, seed: int, versions: Versions) -> Values:
        return {("seed", version): float(seed) if seed else math.nan for version in versions}


def test_a_figure_is_the_mean_over_seeds_with_its_standard_error() -> None:
    figures = measure_rows({"row": [Seeds()]}, {NOW: VERSIONS[NOW]}, seeds=range(5))
    (figure,) = figures
    assert (figure.row, figure.case, figure.measure, figure.version) == ("row", "seeds", "seed", NOW)
    assert (figure.mean, figure.seeds) == (2.5, 4)  # the seed 0 gave no number
    assert figure.se == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)
    (single,) = measure_rows({"row": [Seeds()]}, {NOW: VERSIONS[NOW]}, seeds=[3])
    assert (single.mean, single.se) == (3.0, None)


def test_a_taste_was_marked_before_and_is_flagged_now_but_never_excluded() -> None:
    outcomes = Contest(1, SETUP, VERSIONS, mark=mark).attack("target-only")
    found = {version: outcome.found for version, outcome in outcomes.items()}
    assert found[BEFORE] > 0.0
    assert found[NOW] > found[EXCLUDED] >= 0.0 == found[BRADLEY_TERRY]


def test_attackers_who_follow_the_ranking_are_found_and_gain_nothing_where_they_are_excluded() -> None:
    values = AttackCase("", "mimic", SETUP).try_seed(2, VERSIONS)
    assert values[FOUND, NOW] == values[FOUND, BEFORE] == 100.0
    assert values[GAINED, EXCLUDED] <= values[GAINED, NOW] <= values[GAINED, BEFORE]
    assert values[BEYOND, NOW] == values[GAINED, NOW] - values[GAINED, BRADLEY_TERRY]
    assert values[BEYOND, EXCLUDED] < 0.0
    assert {measure for measure, version in values if version == BRADLEY_TERRY} == {GAINED}


def test_targets_are_of_today_and_by_row() -> None:
    assert find_target("sybils", "16 accounts", BEYOND, NOW) == 0.3
    assert find_target("sybils", "16 accounts", BEYOND, EXCLUDED) is None
    assert find_target("tuned mimics", "5th of six leaders", BEYOND, EXCLUDED) == 0.1
    wronged = [
        find_target(row, case, WRONGED, NOW)
        for row, case in (("alike", ""), ("tiers", ""), ("niche", ""), ("tastes", "tastes"), ("tastes", "in families"))
    ]
    assert wronged == [1.0, 2.0, 2.0, 1.0, 3.0]
    assert find_target("alike", "", WRONGED, BEFORE) is None
    assert find_target("alike", "", FOUND, NOW) is None


def test_half_of_a_budget_lifts_less_often_than_one_and_a_half_of_it() -> None:
    plain = {BRADLEY_TERRY: VERSIONS[BRADLEY_TERRY]}
    values = BudgetCase("", replace(SETUP, votes_each=60)).try_seed(3, plain)
    assert values[ATTACKERS, BRADLEY_TERRY] >= 1
    half, _, more = (values[measure, BRADLEY_TERRY] for measure in LIFTED)
    assert half < more


def test_the_command_prints_a_table_in_three_formats(run_lab: RunLab) -> None:
    words = ["judging", "--row", "niche", "--repeats", 1, "--processes", 1]
    document = json.loads(run_lab(*words, "--format", "json").stdout)
    assert {(row["measure"], row["version"]) for row in document["figures"]} == {
        (measure, version) for measure in (FOUND, "honest wronged, %") for version in (BEFORE, NOW, EXCLUDED)
    }
    assert {row["target"] for row in document["figures"] if row["version"] == NOW} == {None, 2.0}
    lines = run_lab(*words, "--no-before", "--format", "markdown").stdout.splitlines()
    assert lines[2] == "| Row | Case | Measure | Bradley-Terry | now | now, excluded | Target |"
    assert lines[3] == "| --- | --- | --- | ---: | ---: | ---: | --- |"
    assert lines[4].startswith("| niche | 4 attackers, 5 judges | attackers found, % | – | ")
    assert lines[5].endswith("| ≤ 2 |")
    assert run_lab("judging", "--row", "nothing").exit_code == 2
    words = ["judging", "--row", "tuned mimics", "--repeats", 1, "--processes", 1, "--no-before"]
    lines = run_lab(*words, "--format", "markdown").stdout.splitlines()
    assert lines[4].endswith(" ± 0.00) | ≤ +0.3, excluded ≤ +0.1 |")
    assert lines[5].startswith("| tuned mimics | 5th of six leaders | attackers found, % | – |")


@pytest.mark.campaign
def test_every_row_gives_numbers() -> None:
    figures = measure_rows(ROWS, VERSIONS, seeds=[0])
    assert {figure.row for figure in figures} == set(ROWS)
    missing = [figure for figure in figures if figure.mean is None]
    assert {figure.row for figure in missing} <= {"budget"}  # no number of attackers may be enough
