import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
import yaml

from app.database.engine import Database
from app.database.schema import upgrade
from app.leaderboard.service import read_leaderboard
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]


@pytest.fixture
def use(configure: Configure, own_folder: Path) -> Callable[[str], None]:
    """Let commands work on this database."""
    return lambda url: configure(DATABASE_URL=url)


@pytest.fixture
def second_database_url(empty_database_url: str) -> str:
    """Another migrated database of the test's own."""
    upgrade(empty_database_url)
    return empty_database_url


def board_of(url: str) -> list[dict[str, Any]]:
    with Database(url) as database, database.read() as conn:
        return read_leaderboard(conn).rows()


@pytest.mark.parametrize(
    "form", ["csv", *(pytest.param(form, marks=pytest.mark.campaign) for form in ("jsonl", "parquet", "xlsx"))]
)
def test_votes_exported_and_imported_elsewhere_give_the_same_board(
    run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str, second_database_url: str, form: str
) -> None:
    use(database_url)
    assert run_cli("import", vote_file).exit_code == 0
    result = run_cli("export", "votes", "--output", f"out.{form}")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert result.stderr.startswith("1,503 rows of votes; the recorded votes are ")
    assert run_cli("refit").exit_code == 0
    use(second_database_url)
    imported = json.loads(run_cli("import", f"out.{form}", "--format", "json").stdout)
    assert (imported["rows"], imported["created"]) == (1503, 1503)
    assert run_cli("refit").exit_code == 0
    first, second = board_of(database_url), board_of(second_database_url)
    assert [row["model"] for row in first] == [row["model"] for row in second]
    assert [row["score"] for row in first] == pytest.approx([row["score"] for row in second], abs=1e-6)
    assert {"=cat", "[red]dog"} <= {row["model"] for row in second}


def test_to_standard_output(run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str) -> None:
    use(database_url)
    assert run_cli("import", vote_file).exit_code == 0
    lines = run_cli("export", "annotators").stdout.splitlines()
    assert len(lines) == 27
    assert lines[0].startswith("id,annotator,ability")
    models = [
        json.loads(line)
        for line in run_cli("export", "votes", "--format", "jsonl", "--model", "eel").stdout.splitlines()
    ]
    assert models
    assert all("eel" in (vote["model_a"], vote["model_b"]) for vote in models)
    assert run_cli("export", "votes", "--since", "2999-01-01").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("export", "secrets"), 2, "is not one of 'votes', 'annotators', 'leaderboard'"),
        (("export", "votes", "--since", "yesterday"), 2, "--since must be a time"),
        (("export", "votes", "--snapshot", "7"), 1, "7"),
        (("export", "leaderboard"), 1, "published"),
        (("export", "annotators", "--model", "ant"), 2, "model: not a filter of annotators"),
        (("export", "votes", "--method", "m-elo"), 2, "method: not a filter of votes"),
        (("export", "votes", "--output", "no/where.csv"), 2, "does not exist"),
        (
            ("export", "votes", "--output", "b.ods"),
            2,
            ".ods is none of the known endings .csv, .jsonl, .parquet, .xlsx",
        ),
    ],
)
def test_what_cannot_be_exported(
    run_cli: RunCli,
    use: Callable[[str], None],
    database_url: str,
    arguments: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    use(database_url)
    result = run_cli(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert not list(Path().iterdir())


def test_a_dataset_for_hugging_face(
    run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str
) -> None:
    use(database_url)
    run_cli("import", vote_file)
    result = run_cli("export", "votes", "--format", "huggingface", "--output", "dataset")
    assert result.exit_code == 0, result.stderr
    card = Path("dataset/README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["size_categories"] == ["1K<n<10K"]
    assert "1,503 votes of 26 annotators on 5 models" in card
    files = [path for one in head["configs"][0]["data_files"] for path in Path("dataset").glob(one["path"])]
    (path,) = files
    votes = pl.read_parquet(path)
    assert votes.height == 1503
    assert set(votes["annotator"]) == {f"annotator-{i}" for i in range(1, 27)}
    assert (votes["sealed"].unique().to_list(), votes["propensity"].dtype) == ([False], pl.Float64())
    assert sorted(p.name for p in Path("dataset").iterdir()) == ["README.md", "data"]
    assert "exists" in run_cli("export", "votes", "--format", "huggingface", "--output", "dataset").stderr
    assert "--output" in run_cli("export", "votes", "--format", "huggingface").stderr
    assert "for votes" in run_cli("export", "leaderboard", "--format", "huggingface", "--output", "x").stderr


def test_evaluations_for_every_eval_ever(
    run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str
) -> None:
    """They hold to the project's own schema, version 0.3.0 (MIT licence, beside it)."""
    schema = json.loads((Path(__file__).parent / "every_eval_ever" / "eval.schema.json").read_text(encoding="utf-8"))
    use(database_url)
    run_cli("import", vote_file)
    assert run_cli("refit").exit_code == 0
    result = run_cli("export", "leaderboard", "--format", "every-eval-ever", "--output", "evals")
    assert result.exit_code == 0, result.stderr
    rows = {row["model"]: row for row in board_of(database_url)}
    files = list(Path("evals").glob("*/*/*.json"))
    assert len(files) == len(rows) == 5
    for path in files:
        found = json.loads(path.read_text())
        jsonschema.validate(found, schema)
        assert found["schema_version"] == schema["version"]
        row, (result_,) = rows[found["model_info"]["name"]], found["evaluation_results"]
        details = result_["score_details"]
        assert details["score"] == row["score"]
        assert details["uncertainty"]["confidence_interval"] == {
            "lower": row["lower"], "upper": row["upper"], "confidence_level": 0.95,
        }  # fmt: skip
        assert details["details"]["rank"] == str(row["rank"])
