"""`rate --by`: the scores by the categories in a column."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from app.rating.errors import NotConvergedError
from app.rating.uncertainty.pooling import PooledLikelihood
from app.rating.votes.cells import aggregate

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


@pytest.mark.parametrize("method", ["m-elo", "am-elo"])
def test_a_handful_of_votes_has_categories(run_cli: RunCli, own_folder: Path, method: str) -> None:
    """Their dispersion came out as 0 or below, and a singular matrix ended the command."""
    rows = ["a,x,y,model_a,g", "a,y,z,model_a,g", "b,x,z,model_a,h", "b,x,y,model_b,h", "c,y,z,tie,g"]
    file = own_folder / "votes.csv"
    file.write_text("\n".join(["annotator,model_a,model_b,winner,group", *rows]))
    done = run_cli("rate", file, "--method", method, "--by", "group", "--min-votes", "0", "--format", "json")
    assert done.exit_code == 0
    assert [row["model"] for row in json.loads(done.stdout)["categories"]["models"]] == ["x", "y", "z"]


def test_votes_that_determine_no_category_are_said_to() -> None:
    """Scores so far apart that no vote tells anything of them: the information is 0."""
    cells = aggregate(*(np.array(each) for each in ([0, 0], [0, 1], [1, 2], [1.0, 1.0])), n_annotators=1, n_models=3)
    pooled = PooledLikelihood([cells, cells], np.ones(1), np.zeros(3, dtype=np.int64), np.ones(1))
    with pytest.raises(NotConvergedError):
        pooled.fit(1.0, np.tile([1e4, 0.0, -1e4], (2, 1)))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 annotators with 80 votes each by two criteria, on the same battles; the last model is clear, and no better."""
    chance, rows = np.random.default_rng(4), ["annotator,model_a,model_b,winner,battle_id,criterion"]
    for k in range(20):
        for battle in range(80):
            a, b = chance.choice(sorted(STRENGTH), 2, replace=False)
            seen = chance.logistic()
            for criterion in ("", "clear"):
                own = {**STRENGTH, "hen": 1.2 if criterion else -0.4}
                won = "model_a" if own[a] - own[b] + seen > 0.0 else "model_b"
                rows.append(f"k{k},{a},{b},{won},{k}/{battle},{criterion}")
    path = tmp_path_factory.mktemp("by") / "graded.csv"
    path.write_text("\n".join(rows))
    return path


def test_criteria_stand_beside_each_other_and_are_weighed(run_cli: RunCli, graded: Path) -> None:
    def rate(*options: str) -> Any:
        return json.loads(run_cli("rate", graded, "--format", "json", *options).stdout)

    found = rate("--by", "criterion", "--category-weights", "overall=3,clear=1")
    plain, clear = rate(), rate("--criterion", "clear")
    assert found["models"] == plain["models"]
    assert found["annotators"] == plain["annotators"]
    table = found["categories"]
    assert (table["votes"], table["spread"]) == ({"clear": 1600, "overall": 1600}, None)
    cells = {row["model"]: row["categories"] for row in table["models"]}
    for name, rated in (("overall", plain), ("clear", clear)):
        for row in rated["models"]:
            assert {key: cells[row["model"]][name][key] for key in ("score", "lower", "upper", "votes")} == {
                key: row[key] for key in ("score", "lower", "upper", "votes")
            }
    assert cells["hen"]["clear"]["stands_out"]
    assert not any(cell["overall"]["stands_out"] for cell in cells.values())
    half = {row["model"]: row["upper"] - row["lower"] for row in table["weighted"]}
    own = {row["model"]: row["upper"] - row["lower"] for row in plain["models"]}
    assert all(half[model] > 0.85 * own[model] for model in own), "both criteria share their errors"
    gaps = [
        0.75 * cells[row["model"]]["overall"]["score"] + 0.25 * cells[row["model"]]["clear"]["score"] - row["score"]
        for row in table["weighted"]
    ]
    assert max(gaps) - min(gaps) < 1e-6
    shown = run_cli("rate", graded, "--by", "criterion", "--category-weights", "overall=3,clear=1").stdout
    assert shown.index("By criterion") < shown.index("Weighted")


def test_categories_are_weighed(run_cli: RunCli, file: Path) -> None:
    found = json.loads(
        run_cli("rate", file, "--by", "language", "--category-weights", "en=1,fr=3", "--format", "json").stdout
    )["categories"]
    scores = {row["model"]: row["categories"] for row in found["models"]}
    weighted = {row["model"]: row["score"] for row in found["weighted"]}
    gaps = [0.25 * row["en"]["score"] + 0.75 * row["fr"]["score"] - weighted[model] for model, row in scores.items()]
    assert max(gaps) - min(gaps) < 1e-6


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--category-weights", "en=1"), "--by"), (("--by", "criterion", "--category-weights", "kind=1"), "kind"),
        (("--by", "criterion", "--style", "side"), "--style"), (("--by", "criterion", "--criterion", "kind"), "kind"),
        (("--by", "criterion", "--category-weights", "clear=0"), "clear=0"),
        (("--by", "criterion", "--category-weights", "clear"), "VALUE=WEIGHT"),
        (("--by", "criterion", "--category-weights", "clear=1,overall=1", "--interval", "sandwich"), "independent"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be(run_cli: RunCli, graded: Path, options: tuple[str, ...], word: str) -> None:
    refused = run_cli("rate", graded, *options)
    assert refused.exit_code == 2
    assert word in refused.stderr


def test_which_few_models_serve_every_category(run_cli: RunCli, file: Path, tmp_path: Path) -> None:
    """In French hen is as good as owl, in English the worst: owl serves both."""

    def rate(path: Path, *options: str) -> Any:
        return json.loads(run_cli("rate", path, "--by", "language", *options, "--format", "json").stdout)["categories"]

    found = rate(file, "--portfolio", "150")
    chosen = found.pop("portfolio")
    assert found == rate(file)
    assert chosen["differ"]
    assert chosen["held_out"]["gain"] > chosen["held_out"]["half"] > 0.0
    assert chosen["models"] == ["owl"]
    assert {tag: one["model"] for tag, one in chosen["serves"].items()} == {"en": "owl", "fr": "owl"}
    assert all(one["behind"] <= one["at_most"] <= 150 for one in chosen["serves"].values())
    narrow = run_cli("rate", file, "--by", "language", "--portfolio", "1e-6").stdout
    assert "no model stands" in narrow.split("Within")[1]
    shuffled = tmp_path / "shuffled.csv"
    rows = [line.split(",") for line in file.read_text().splitlines()]
    words = np.random.default_rng(1).permutation([row[4] for row in rows[1:]])
    rows[1:] = [[*row[:4], word, ""] for row, word in zip(rows[1:], words, strict=True)]
    shuffled.write_text("\n".join(",".join(row) for row in rows))
    none = rate(shuffled, "--portfolio", "150")["portfolio"]
    assert (none["differ"], none["models"], none["serves"]) == (False, [], {})


@pytest.mark.parametrize(
    "options",
    [("--portfolio", "50"), ("--by", "criterion", "--portfolio", "50"), ("--by", "language", "--portfolio", "0"),
     ("--by", "language", "--portfolio", "50", "--interval", "none")],
)  # fmt: skip
def test_a_portfolio_needs_categories_intervals_and_a_margin(
    run_cli: RunCli, file: Path, options: tuple[str, ...]
) -> None:
    refused = run_cli("rate", file, *options)
    assert refused.exit_code == 2
    assert "--portfolio" in refused.stderr
