"""`rate --by`: the scores by the categories in a column."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

RunCli = Callable[..., Result]
STRENGTH = {"owl": 0.8, "elk": 0.4, "fox": 0.0, "hen": -0.4}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 annotators with 80 votes each; the last model is better in French. Votes of the first say no language."""
    chance, rows = np.random.default_rng(3), ["annotator,model_a,model_b,winner,language,nothing"]
    for k in range(20):
        for _ in range(80):
            language = chance.choice(["en", "fr"])
            a, b = chance.choice(sorted(STRENGTH), 2, replace=False)
            own = {**STRENGTH, "hen": 0.8 if language == "fr" else -0.4}
            won = "model_a" if chance.random() < 1 / (1 + math.exp(own[b] - own[a])) else "model_b"
            rows.append(f"k{k},{a},{b},{won},{language if k else ''},")
    path = tmp_path_factory.mktemp("by") / "votes.csv"
    path.write_text("\n".join(rows))
    return path


def test_a_model_stands_out_in_a_category(run_cli: RunCli, file: Path) -> None:
    found = json.loads(run_cli("rate", file, "--by", "language", "--format", "json").stdout)
    table = found["categories"]
    assert (table["by"], list(table["votes"])) == ("language", ["en", "fr"])
    assert sum(table["votes"].values()) == 19 * 80
    assert 30.0 < table["spread"] < 200.0
    models = {row["model"]: row["categories"] for row in table["models"]}
    assert list(models) == [row["model"] for row in found["models"]]
    assert sum(row["fr"]["votes"] for row in models.values()) == 2 * table["votes"]["fr"]
    assert models["hen"]["en"]["upper"] < models["hen"]["fr"]["lower"]
    assert models["hen"]["fr"]["difference"] > 0.0 > models["hen"]["en"]["difference"]
    assert models["hen"]["fr"]["stands_out"]
    shown = run_cli("rate", file, "--by", "language").stdout.splitlines()
    lines = shown[shown.index("By language") + 1 :]
    assert lines[0].split() == ["Model", "All", "en", "fr"]
    assert next(line for line in lines if line.startswith("hen")).count("* ") == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--by", "country"), "country"), (("--by", "language", "--method", "elo"), "am-elo"),
        (("--by", "language", "--inverse-propensity"), "--by"), (("--by", "nothing"), "has 0"),
    ],
)  # fmt: skip
def test_what_has_no_categories_is_refused(run_cli: RunCli, file: Path, options: tuple[str, ...], word: str) -> None:
    result = run_cli("rate", file, *options)
    assert (result.exit_code, word in result.stderr) == (2, True)
