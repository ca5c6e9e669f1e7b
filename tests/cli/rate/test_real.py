import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

RunCli = Callable[..., Result]


@pytest.fixture
def rate_real(run_cli: RunCli, data_folder: Path) -> Any:
    """Rate a real vote file and return the JSON document."""

    def rate(name: str, *arguments: object) -> dict[str, Any]:
        result = run_cli("rate", data_folder / name, *arguments, "--format", "json")
        assert (result.exit_code, result.stderr) == (0, "")
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    return rate


def test_llmfao_plain_reaches_the_known_likelihood_and_finds_the_contrary(rate_real: Any) -> None:
    document = rate_real("llmfao.csv", "--plain", "--min-ability", 0, "--flag-rule", "threshold")
    assert (document["votes"]["read"], document["votes"]["used"]) == (8931, 7393)
    assert len(document["models"]) == 59
    assert document["diagnostics"]["log_likelihood"] >= -4627.79
    assert sum(row["standing"] == "flagged" for row in document["annotators"]) == 4
    assert sum(row["standing"] != "pending" for row in document["annotators"]) == 37


def test_llmfao_m_elo_has_the_known_likelihood(rate_real: Any) -> None:
    document = rate_real("llmfao.csv", "--method", "m-elo")
    assert document["diagnostics"]["log_likelihood"] == pytest.approx(-4761.165, abs=5e-4)


def test_numbers_stay_names_and_components_stay_apart(rate_real: Any) -> None:
    document = rate_real("ukpconvarg1.csv", "--method", "m-elo")
    assert document["votes"]["read"] == 84445
    assert document["diagnostics"]["components"] == len({row["component"] for row in document["models"]}) > 1
    assert "580" in {row["model"] for row in document["models"]}
