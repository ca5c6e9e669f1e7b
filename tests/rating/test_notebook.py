"""docs/notebook.md is executed: its results are those of its code, and it runs on every kind of table."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "notebook.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"P\(Ash beats Elm\) = \d").search
EXECUTE: Callable[..., str] = runpy.run_path(str(DOCS / "generate.py"))["execute"]


def test_the_results_are_those_of_the_code() -> None:
    assert EXECUTE(PAGE) == PAGE, "run make docs"


@pytest.mark.parametrize(
    ("convert", "kind"),
    [
        (lambda votes: pd.DataFrame(votes.to_dict(as_series=False)), pd.DataFrame),
        (lambda votes: pa.table(votes.to_dict(as_series=False)), pa.Table),
        (lambda votes: votes.to_dict(as_series=False), pl.DataFrame),
    ],
    ids=["pandas", "arrow", "lists"],
)
def test_the_page_runs_on_every_kind_of_table(convert: Callable[[pl.DataFrame], Any], kind: type) -> None:
    shared: dict[str, Any] = {}

    def convert_votes(names: dict[str, Any]) -> None:
        if "votes" in names and "votes" not in shared:
            names["votes"] = convert(names["votes"])
        shared.update(names)

    page = EXECUTE(PAGE, convert_votes)
    arena = shared["arena"]
    assert {type(table) for table in (arena.leaderboard, arena.rank_sets(), arena.flags())} == {kind}
    figures = "P(Ash beats Elm)"
    assert [line for line in page.splitlines() if figures in line] == [
        line for line in PAGE.splitlines() if figures in line
    ]
