import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import polars as pl
import pytest
from typer.testing import Result

RunCli = Callable[..., Result]


MODEL_KEYS = [
    "model", "score", "se", "lower", "upper", "rank", "best_rank", "worst_rank",
    "rank_set_best", "rank_set_worst", "class_rank", "votes", "wins", "ties", "losses", "component", "identified",
]  # fmt: skip
ANNOTATOR_KEYS = [
    "annotator", "ability", "paper_ability", "se", "probability_low",
    "adjusted_ability", "adjusted_lower", "adjusted_upper",
    "tie_readiness", "tie_readiness_lower", "tie_readiness_upper", "side_lean", "side_lean_lower", "side_lean_upper",
    "votes", "standing", "reason",
]  # fmt: skip


@pytest.fixture
def rate_json(run_cli: RunCli) -> Any:
    """Rate a file and return the JSON document."""

    def rate(*arguments: object) -> dict[str, Any]:
        result = run_cli("rate", *arguments, "--format", "json")
        assert (result.exit_code, result.stderr) == (0, "")
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    return rate


def test_the_json_document(rate_json: Any, vote_file: Path) -> None:
    document = rate_json(vote_file)
    assert list(document) == ["method", "settings", "votes", "models", "annotators", "diagnostics"]
    assert document["method"] == "am-elo"
    assert document["votes"] == {
        "read": 1503, "used": 1500, "rejected": 0, "skipped": 0, "duplicates": 0, "per": ANY,
        "rankings": 0, "votes_used": 1500, "pairs_read": 1503,
        "votes_per_annotator": document["votes"]["per"]["annotator"],
    }  # fmt: skip
    assert all(list(row) == MODEL_KEYS for row in document["models"])
    assert all(list(row) == ANNOTATOR_KEYS for row in document["annotators"])
    assert {"log_likelihood", "iterations", "converged", "components", "seconds", "warnings"} <= set(
        document["diagnostics"]
    )
    assert {"read", "aggregate", "fit", "intervals"} <= set(document["diagnostics"]["seconds"])
    assert [row["model"] for row in document["models"]] == ["ant", "bee=2", "=cat", "[red]dog", "eel"]
    assert [row["rank"] for row in document["models"]] == [1, 2, 3, 4, 5]
    first = document["models"][0]
    assert first["votes"] == 600 == first["wins"] + first["ties"] + first["losses"]
    assert isinstance(first["wins"], int)
    assert first["lower"] < first["score"] < first["upper"]


def test_the_settings_are_echoed(rate_json: Any, vote_file: Path) -> None:
    settings = rate_json(vote_file, "--min-votes", 10, "--prior-sd", 0.5, "--seed", 7)["settings"]
    assert settings == {
        "method": "am-elo", "min_votes": 10, "min_ability": 0.2, "min_probability": 0.95, "exclude": False,
        "prior_sd": 0.5,
        "flag_rule": "evidence", "release_margin": 0.0, "evidence_ratio": 100.0,
        "evidence_tests": ["coin", "equal", "follower", "favour", "against", "side"],
        "influence_limit": 1.25,
        "interval": "clustered", "confidence": 0.95, "base": 1000.0, "anchor": None,
        "min_model_votes": 0, "min_model_annotators": 0, "max_interval_width": None,
        "shuffles": 1000, "seed": 7, "inverse_propensity": False,
        "pool_annotators": False, "schema": "votes", "annotator_column": "annotator", "prompt_column": None,
        "criterion": "overall",
    }  # fmt: skip


def test_the_spread_of_abilities_is_estimated_from_the_one_that_is_assumed(rate_json: Any, vote_file: Path) -> None:
    estimated = rate_json(vote_file, "--prior-sd", "estimated")
    assert estimated["settings"]["prior_sd"] == "estimated"
    spreads = [rate_json(vote_file, "--prior-sd", sd)["diagnostics"]["ability_spread"] for sd in (0.05, 0.6)]
    assert 0.05 <= spreads[0] < estimated["diagnostics"]["ability_spread"] < spreads[1] <= 0.6


def test_the_limit_of_influence_can_be_changed_and_left_out(rate_json: Any, run_cli: RunCli, vote_file: Path) -> None:
    assert rate_json(vote_file, "--influence-limit", "inf")["settings"]["influence_limit"] is None
    assert rate_json(vote_file, "--influence-limit", 2)["settings"]["influence_limit"] == 2.0
    assert rate_json(vote_file, "--plain")["settings"]["influence_limit"] is None
    for wrong in (["--influence-limit", 0], ["--influence-limit", "nan"], ["--plain", "--influence-limit", 2]):
        assert run_cli("rate", vote_file, *wrong).exit_code == 2


def test_notices_are_in_the_document_and_beside_rows_on_standard_error(
    run_cli: RunCli, rate_json: Any, vote_file: Path
) -> None:
    noticed = rate_json(vote_file, "--pool-annotators")["diagnostics"]["warnings"]
    assert {"one-annotator", "few-annotators"} <= {notice["code"] for notice in noticed}
    rows = run_cli("rate", vote_file, "--pool-annotators", "--format", "csv")
    assert "(one-annotator)" in rows.stderr
    assert "one-annotator" not in rows.stdout


def test_annotators_have_the_figures_of_the_service(rate_json: Any, vote_file: Path) -> None:
    rows = rate_json(vote_file)["annotators"]
    contrary = next(row for row in rows if row["standing"] == "flagged")
    assert contrary["probability_low"] > 0.9
    ends = contrary["adjusted_lower"], contrary["adjusted_upper"]
    assert ends[0] < contrary["adjusted_ability"] < ends[1] < 0.5, "a lean may be meant: the better is on the left"
    able = rows[0]
    assert able["probability_low"] < 0.1
    assert 0 <= able["tie_readiness_lower"] <= able["tie_readiness"] <= able["tie_readiness_upper"] < 1
    plain = rate_json(vote_file, "--flag-rule", "threshold")["annotators"][0]
    assert (plain["adjusted_ability"], plain["tie_readiness"]) == (None, None), "no evidence was weighed"


def test_the_interval_echoed_is_the_one_that_was_made(rate_json: Any, vote_file: Path) -> None:
    assert rate_json(vote_file, "--pool-annotators")["settings"]["interval"] == "sandwich"
    none = rate_json(vote_file, "--interval", "none")
    assert none["settings"]["interval"] == "none"
    assert {row["se"] for row in none["models"]} == {None}


def test_the_contrary_annotator_is_flagged_or_excluded_and_the_rare_one_pending(
    rate_json: Any, vote_file: Path
) -> None:
    flagged = rate_json(vote_file)
    standings = [row["standing"] for row in flagged["annotators"]]
    assert standings == ["active"] * 24 + ["flagged", "pending"]
    few = {"annotator": "few", "votes": 3, "standing": "pending", "probability_low": ANY}
    assert flagged["annotators"][-1] == {**dict.fromkeys(ANNOTATOR_KEYS), **few}
    abilities = [row["ability"] for row in flagged["annotators"][:-1]]
    assert abilities == sorted(abilities, reverse=True)
    excluded = rate_json(vote_file, "--exclude")
    assert [row["standing"] for row in excluded["annotators"]] == ["active"] * 24 + ["excluded", "pending"]
    assert excluded["annotators"][24]["ability"] is None
    assert (excluded["votes"]["read"], excluded["votes"]["used"]) == (1503, 1440)


def test_the_votes_per_annotator_model_and_pair_are_counted(rate_json: Any, run_cli: RunCli, vote_file: Path) -> None:
    """Every valid vote that was read; a vote counts for both of its models."""
    expected = {
        "annotator": {"mean": pytest.approx(1503 / 26), "median": 60, "least": 3, "most": 60},
        "model": {"mean": pytest.approx(2 * 1503 / 5), "median": 600, "least": 600, "most": 603},
        "pair": {"mean": pytest.approx(150.3), "median": 150, "least": 150, "most": 153},
    }
    for method in ("am-elo", "elo"):
        votes = rate_json(vote_file, "--method", method, "--shuffles", 2)["votes"]
        assert votes["per"] == expected
    assert "per annotator 57.8 (median 60, 3 to 60)" in run_cli("rate", vote_file).stdout


def test_plain_abilities_are_given_in_the_paper_s_gauge_too(rate_json: Any, run_cli: RunCli, vote_file: Path) -> None:
    in_fit = [row for row in rate_json(vote_file, "--plain")["annotators"] if row["ability"] is not None]
    assert sum(row["paper_ability"] for row in in_fit) == pytest.approx(1.0)
    total = sum(row["ability"] for row in in_fit)
    assert [row["paper_ability"] for row in in_fit] == pytest.approx([row["ability"] / total for row in in_fit])
    assert {row["paper_ability"] for row in rate_json(vote_file)["annotators"]} == {None}, "there is a prior"
    shown = [run_cli("rate", vote_file, "--annotators", *more).stdout for more in ([], ["--plain"])]
    assert ["Σ = 1" in text for text in shown] == [False, True]


def test_plain_is_no_prior_and_no_limit(rate_json: Any, vote_file: Path) -> None:
    plain = rate_json(vote_file, "--plain")
    assert (plain["settings"]["prior_sd"], plain["settings"]["influence_limit"]) == (None, None)
    unlimited = rate_json(vote_file, "--influence-limit", "inf")
    assert (unlimited["settings"]["prior_sd"], unlimited["settings"]["influence_limit"]) == ("estimated", None)
    assert plain["diagnostics"]["log_likelihood"] >= unlimited["diagnostics"]["log_likelihood"]


def test_base_and_anchor(rate_json: Any, vote_file: Path) -> None:
    scores = {row["model"]: row["score"] for row in rate_json(vote_file, "--base", 1500)["models"]}
    assert sum(scores.values()) / 5 == pytest.approx(1500)
    anchored = rate_json(vote_file, "--anchor", "bee=2=-40.5")
    assert anchored["settings"]["anchor"] == {"model": "bee=2", "score": -40.5}
    for row in anchored["models"]:
        assert row["score"] == pytest.approx(scores[row["model"]] - scores["bee=2"] - 40.5)


def test_the_order_of_the_votes_does_not_matter(rate_json: Any, vote_file: Path) -> None:
    header, *lines = vote_file.read_text().splitlines()
    before = rate_json(vote_file)
    vote_file.write_text("\n".join([header, *sorted(lines, key=hash)]))
    after = rate_json(vote_file)
    assert [row["model"] for row in after["models"]] == [row["model"] for row in before["models"]]
    for old, new in zip(before["models"], after["models"], strict=True):
        assert new["score"] == pytest.approx(old["score"], abs=1e-9)


def test_the_table(run_cli: RunCli, vote_file: Path) -> None:
    result = run_cli("rate", vote_file)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["Rank", "Class", "Model", "Score", "±", "Votes", "Wins", "Ties", "Losses"]
    for name, line in zip(["ant", "bee=2", "=cat", "[red]dog", "eel"], lines[1:6], strict=True):
        assert f" {name} " in line
    assert "1,503 votes read, 1,500 used · 1 of 26" in result.stdout
    assert "log-likelihood" not in result.stdout
    assert "1 of 26 annotators flagged or excluded" in result.stdout
    assert "few" not in result.stdout
    shown = run_cli("rate", vote_file, "--annotators").stdout.splitlines()
    assert ["few", "3", "pending"] in [[*line.split()[:1], *line.split()[-2:]] for line in shown]


def test_a_long_name_is_not_cut_in_a_pipe(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    name = "m" * 500
    path.write_text(f"annotator,model_a,model_b,winner\nk,{name},b,model_a\nk,{name},b,model_b\n")
    assert name in run_cli("rate", path, "--min-votes", 0, "--method", "m-elo").stdout


def test_components_and_models_without_a_score_are_shown_apart(run_cli: RunCli, rate_json: Any, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    votes = ["k,a,b,model_a"] * 5 + ["k,a,b,model_b"] * 4 + ["k,c,a,model_a"] * 3
    votes += ["k,x,y,model_a", "k,y,x,model_a"]
    path.write_text("\n".join(["annotator,model_a,model_b,winner", *votes]))
    arguments = (path, "--min-votes", 0, "--method", "m-elo")
    models = {row["model"]: row for row in rate_json(*arguments)["models"]}
    assert {name: row["component"] for name, row in models.items()} == {"a": 0, "b": 0, "c": 0, "x": 1, "y": 1}
    assert (models["c"]["score"], models["c"]["identified"], models["c"]["upper"]) == (None, False, None)
    assert models["c"]["lower"] is not None
    table = run_cli("rate", *arguments).stdout
    assert "Component 1 of 2" in table
    assert "Component 2 of 2" in table
    assert f"≥ {models['c']['lower']:.1f}" in table
    assert "warning: " in table


def test_csv_and_parquet(run_cli: RunCli, rate_json: Any, vote_file: Path) -> None:
    document = rate_json(vote_file)
    text = run_cli("rate", vote_file, "--format", "csv").stdout
    table = pl.read_csv(io.StringIO(text))
    assert table.columns == MODEL_KEYS
    assert table["model"].to_list() == ["ant", "bee=2", "'=cat", "[red]dog", "eel"]  # no spreadsheet formulas
    assert table["score"].to_list() == [row["score"] for row in document["models"]]
    people = pl.read_csv(io.StringIO(run_cli("rate", vote_file, "--format", "csv", "--annotators").stdout))
    assert people.columns == ANNOTATOR_KEYS
    assert people["annotator"].to_list() == [row["annotator"] for row in document["annotators"]]
    content = run_cli("rate", vote_file, "--format", "parquet").stdout_bytes
    assert pl.read_parquet(io.BytesIO(content)).to_dicts() == document["models"]
    content = run_cli("rate", vote_file, "--format", "parquet", "--annotators").stdout_bytes
    assert pl.read_parquet(io.BytesIO(content)).to_dicts() == document["annotators"]


def test_output_replaces_a_file_whole_and_its_name_tells_the_format(
    run_cli: RunCli, vote_file: Path, tmp_path: Path
) -> None:
    for name, start in [
        ("b.json", '{\n  "method"'),
        ("b.csv", "model,score"),
        ("b.txt", "Rank"),
        ("b.parquet", "PAR1"),
    ]:
        output = tmp_path / name
        output.write_text("old")
        output.chmod(0o640)
        result = run_cli("rate", vote_file, "--output", output)
        assert (result.exit_code, result.stdout) == (0, "")
        assert output.read_bytes().lstrip().startswith(start.encode())
        assert output.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.csv", "b.json", "b.parquet", "b.txt", "votes.csv"]


def test_output_through_a_link_replaces_what_it_points_to(run_cli: RunCli, vote_file: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert run_cli("rate", vote_file, "--output", link).exit_code == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["method"] == "am-elo"


def test_a_failed_run_leaves_the_old_output(run_cli: RunCli, vote_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "b.json"
    output.write_text("old")
    assert run_cli("rate", vote_file, "--min-votes", 10_000, "--output", output).exit_code == 2
    assert output.read_text() == "old"


def test_skip_invalid_counts_the_faulty_votes(rate_json: Any, vote_file: Path) -> None:
    with vote_file.open("a") as file:
        file.write("k00,ant,,tie\nk00,ant,eel,drew\n")
    assert rate_json(vote_file, "--skip-invalid")["votes"] == {
        "read": 1505,
        "used": 1500,
        "rejected": 2,
        "skipped": 0,
        "duplicates": 0,
        "per": ANY,
        "rankings": 0,
        "votes_used": 1500,
        "pairs_read": 1503,
        "votes_per_annotator": ANY,
    }


def test_the_worked_example_of_the_literature(rate_json: Any, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    games = [("A,B,model_a", 8), ("A,B,model_b", 4), ("A,C,model_a", 3), ("A,C,model_b", 5)]
    lines = [f"k,{game}" for game, times in games for _ in range(times)]
    path.write_text("\n".join(["annotator,model_a,model_b,winner", *lines]))
    arguments = ("--min-votes", 0, "--method", "m-elo", "--base", 1500, "--interval", "information")
    rows = {row["model"]: row for row in rate_json(path, *arguments)["models"]}
    expected = {"C": (1599.3, 1419.5, 1779.0), "A": (1510.6, 1402.4, 1618.7), "B": (1390.1, 1228.3, 1552.0)}
    for model, figures in expected.items():
        assert [round(rows[model][key], 1) for key in ("score", "lower", "upper")] == pytest.approx(figures, abs=0.051)


def test_an_annotator_judges_a_battle_once(run_cli: RunCli, rate_json: Any, vote_file: Path) -> None:
    before = rate_json(vote_file)
    lines = vote_file.read_text().splitlines()
    numbered = [lines[0] + ",battle_id", *(f"{line},{i}" for i, line in enumerate(lines[1:]))]
    again = [
        line.replace("model_a", "x").replace("model_b", "model_a").replace("x", "model_b") for line in numbered[1:40]
    ]
    vote_file.write_text("\n".join([*numbered, *numbered[1:300], *again]) + "\n")
    result = run_cli("rate", vote_file, "--format", "json")
    assert result.stderr == "338 votes left out: the annotator had voted in the same battle before\n"
    after = json.loads(result.stdout)
    assert after["votes"]["duplicates"] == 299 + 39
    assert after["models"] == before["models"]
