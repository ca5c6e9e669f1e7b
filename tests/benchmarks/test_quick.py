from pathlib import Path

import pytest

from benchmarks import quick
from benchmarks.quick import (
    LEAST_NOISE,
    ROWS,
    Recorded,
    Row,
    compare,
    describe,
    read_figures,
    show,
    summarise,
    this_machine,
    write_figures,
)

FIT = Recorded(runs=(1.9, 2.0, 2.02), yardstick=ROWS["fit"][1])


def test_every_row_has_a_figure_on_record() -> None:
    _, figures = read_figures()
    assert {name: row.yardstick for name, row in figures.items()} == {name: fixed for name, (_, fixed) in ROWS.items()}


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "figures.toml"
    write_figures("a machine", {"fit": FIT}, path)
    assert read_figures(path) == ("a machine", {"fit": FIT})


def test_the_median_of_whole_runs_counts_and_the_farthest_of_them_is_the_noise() -> None:
    found = summarise([{"fit": 2.0, "page": 5.0}, {"fit": 2.2, "page": 5.01}, {"fit": 1.9, "page": 5.0}], {})
    assert (found["fit"].ratio, found["fit"].noise) == (2.0, pytest.approx(0.1))
    assert (found["page"].ratio, found["page"].noise) == (5.0, LEAST_NOISE)


def test_runs_are_added_to_those_against_the_same_yardstick() -> None:
    before = {"fit": FIT, "page": Recorded((9.0,), "another yardstick")}
    found = summarise([{"fit": 2.4, "page": 5.0}], before)
    assert found["fit"].runs == (*FIT.runs, 2.4)
    assert found["page"].runs == (5.0,)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (2.09, ""),
        (1.91, ""),
        (2.12, "WORSE by 6%"),
        (2.22, "WORSE by 11%, beyond twice the noise"),
        (1.80, "better by 10%"),
    ],
)
def test_a_row_is_compared_with_the_noise_on_record(ratio: float, verdict: str) -> None:
    line = describe(Row("fit", 1.0, ratio), FIT)
    assert line.partition("5.0%")[2].strip(" ,") == verdict


@pytest.mark.parametrize(
    ("ratio", "machine", "code"),
    [(2.19, this_machine(), 0), (2.21, this_machine(), 1), (1.0, this_machine(), 0), (2.21, "another", 0)],
)
def test_it_fails_beyond_twice_the_noise_on_the_machine_of_the_figures(ratio: float, machine: str, code: int) -> None:
    assert show([Row("fit", 1.0, ratio), Row("page", 1.0, 9.0)], {"fit": FIT}, machine) == code


def test_the_least_times_count_and_a_row_that_looks_worse_takes_its_turns_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick, "FIGURES", {"fit": FIT})
    ours, theirs = iter([9.0, 8.0, 4.0, 6.0]), iter([3.0, 2.0, 2.5, 4.0])
    assert compare("fit", lambda: next(ours), lambda: next(theirs), turns=2) == Row("fit", 4.0, 2.0)
    ours, theirs = iter([5.0, 4.0, 0.1]), iter([3.0, 2.0, 0.1])
    assert compare("fit", lambda: next(ours), lambda: next(theirs), turns=2) == Row("fit", 4.0, 2.0)
