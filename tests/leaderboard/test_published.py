from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest

Ask = Callable[..., Any]


@pytest.mark.comparisons
def test_what_a_refit_publishes_fits_together(
    ask: Ask, crowd: list[str], refit: Ask, database: Database, fit_process: FitProcess
) -> None:
    refit()
    measure_newest(database, fit_process, lease_seconds=30)
    shown = ask("GET", "/snapshots/1").json()
    assert {"am-elo", "m-elo", "m-elo-all"} <= set(shown["boards"])
    board = ask("GET", "/leaderboard?compare=m-elo,m-elo-all").json()
    rows = {row["model"]: row for row in board["models"]}
    assert all(row["compared"]["m-elo"]["score"] is not None for row in rows.values())
    wins, votes = Counter[str](), Counter[str]()
    for one in ask("GET", "/matchups?limit=500").json()["items"]:
        wins += Counter({one["model_a"]: one["wins_a"], one["model_b"]: one["wins_b"]})
        votes += Counter({one["model_a"]: one["votes"], one["model_b"]: one["votes"]})
        ahead = rows[one["model_a"]]["score"] > rows[one["model_b"]]["score"]
        assert (one["predicted"] > 0.5) == ahead
        assert one["lower"] < one["predicted"] < one["upper"]
    assert wins == {name: row["wins"] for name, row in rows.items()}
    assert votes == {name: row["votes"] for name, row in rows.items()}
    first, second = board["models"][:2]
    assert (first["tied"], second["tied"]) == (None, False)
    detail = ask("GET", f"/models/{second['model']}").json()
    assert detail["above"]["model"] == first["model"]
    assert detail["above"]["gap"] > 0
    assert len(detail["head_to_head"]) == len(rows) - 1
