"""The promises about real votes that the laboratory's prediction table makes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Rows = dict[str, dict[str, Any]]


@pytest.fixture
def predicted(run_lab: Callable[..., Result]) -> Callable[..., Rows]:
    """Method → its row of the prediction table for a real vote file; skips where the data folder is not set."""
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")

    def predict(name: str) -> Rows:
        result = run_lab("prediction", Path(folder) / name, "--shuffles", 2, "--processes", 1, "--format", "json")
        assert (result.exit_code, result.stderr) == (0, "")
        return {row["method"]: row for row in json.loads(result.stdout)["methods"]}

    return predict


@pytest.mark.parametrize(
    "name", ["llmfao.csv", "lightfield.csv", pytest.param("ukpconvarg1.csv", marks=pytest.mark.soak)]
)
def test_the_default_loses_nothing_against_the_plain_estimator(predicted: Callable[..., Rows], name: str) -> None:
    rows = predicted(name)
    plain, robust = rows["am-elo plain"], rows["am-elo robust"]
    assert robust["answered"] == 5
    assert plain["answered"] >= 1
    assert plain["mse_lead"] > -0.0005
    assert plain["auc_lead"] < 0.002


def test_abilities_predict_better_than_bradley_terry(predicted: Callable[..., Rows]) -> None:
    rows = predicted("llmfao.csv")
    assert rows["m-elo"]["mse_lead"] > 0.004
    assert rows["m-elo"]["auc_lead"] < -0.025
    assert rows["am-elo robust"]["mse"] == pytest.approx(0.120, abs=0.004)
    assert rows["am-elo robust"]["auc"] == pytest.approx(0.805, abs=0.02)
