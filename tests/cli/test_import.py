import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database

RunCli = Callable[..., Any]

HEADER = "annotator,model_a,model_b,winner,battle_id\n"


pytestmark = pytest.mark.usefixtures("on_database", "own_folder")


def counts(database: Database) -> dict[str, int]:
    with database.read() as conn:
        tables = ("votes", "models", "annotators", "imports")
        return {name: conn.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables}


def test_a_dry_run(run_cli: RunCli, vote_file: Path, database: Database) -> None:
    assert run_cli("import", vote_file).exit_code == 0
    told = run_cli("import", vote_file, "--dry-run").stdout
    assert told.endswith("0 not valid. Nothing was recorded, and nothing was compared with the recorded votes.\n")
    counted = json.loads(run_cli("import", vote_file, "--dry-run", "--format", "json").stdout)
    assert (counted["rows"], counted["rejected"]) == (1503, 0)
    assert [counted[name] for name in ("created", "replaced")] == [0, 0]
    assert [counted[name] for name in ("duplicates", "retracted", "conflicts")] == [None] * 3
    assert counts(database)["votes"] == 1503


def test_a_file_once(run_cli: RunCli, vote_file: Path, database: Database) -> None:
    result = run_cli("import", vote_file)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (
        "votes.csv: 1,503 records, 1,503 votes recorded, 0 duplicates, 0 conflicts, 0 not valid.\n"
    )
    again = run_cli("import", vote_file)
    assert (again.exit_code, "imported before" in again.stdout) == (0, True)
    assert counts(database) == {"votes": 1503, "models": 5, "annotators": 26, "imports": 1}
    assert run_cli("import", vote_file, "--again").exit_code == 0
    assert counts(database) == {"votes": 3006, "models": 5, "annotators": 26, "imports": 2}


def test_logs_of_inspect_are_one_file(run_cli: RunCli, database: Database) -> None:
    for model, grade in (("owl", "C"), ("elk", "I")):
        log = {
            "status": "success", "eval": {"task": "quiz", "model": model}, "results": {"scores": [{"name": "match"}]},
            "samples": [{"id": 1, "epoch": 1, "scores": {"match": {"value": grade}}}],
        }  # fmt: skip
        Path(f"{model}.json").write_text(json.dumps(log, indent=2))
    result = run_cli("import", "owl.json", "elk.json")
    assert (result.exit_code, result.stdout.split(",")[0]) == (0, "the logs: 1 record"), result.stderr
    assert counts(database) == {"votes": 1, "models": 2, "annotators": 1, "imports": 1}


def test_json_tells_conflicts_and_their_lines(run_cli: RunCli) -> None:
    Path("votes.csv").write_text(HEADER + "k,a,b,tie,1\nk,a,b,model_a,1\nk,b,a,tie,1\n")
    result = run_cli("import", "votes.csv", "--format", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert {name: told[name] for name in ("rows", "created", "duplicates", "conflicts", "rejected")} == {
        "rows": 3, "created": 1, "duplicates": 1, "conflicts": 1, "rejected": 0,
    }  # fmt: skip
    assert not told["already_imported"]
    assert [place["place"] for place in told["conflict_places"]] == ["line 3"]
    assert result.stderr.startswith("conflict: line 3: the annotator has voted in this battle already")


def test_many_conflicts_are_told_in_short(run_cli: RunCli) -> None:
    rows = "".join(f"k,a,b,tie,{i}\nk,a,b,model_a,{i}\n" for i in range(25))
    Path("votes.csv").write_text(HEADER + rows)
    lines = run_cli("import", "votes.csv").stderr.splitlines()
    assert (len(lines), lines[-1]) == (11, "… and 15 more")


def test_a_faulty_file_leaves_nothing(run_cli: RunCli, database: Database) -> None:
    Path("votes.csv").write_text(HEADER + "k,a,b,tie,1\nk,a,,tie,2\nk,a,b,both,3\n")
    result = run_cli("import", "votes.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: votes.csv: 2 of 3 records are not valid votes; unknown verdicts: both 1 time (")
    assert [line.split(",")[0] for line in lines[1:]] == ["  line 3", "  line 4"]
    assert set(counts(database).values()) == {0}
    skipped = run_cli("import", "votes.csv", "--skip-invalid")
    assert (skipped.exit_code, "1 vote recorded" in skipped.stdout) == (0, True)


def test_one_annotator_for_all(run_cli: RunCli, database: Database) -> None:
    Path("votes.csv").write_text("model_a,model_b,winner\na,b,tie\nb,a,tie\n")
    assert run_cli("import", "votes.csv").exit_code == 2
    assert run_cli("import", "votes.csv", "--pool-annotators").exit_code == 0
    assert counts(database) == {"votes": 2, "models": 2, "annotators": 1, "imports": 1}


@pytest.mark.parametrize(("name", "content"), [("none.csv", None), ("empty.csv", ""), ("other.csv", "x,y\n1,2\n")])
def test_what_is_no_vote_file(run_cli: RunCli, database: Database, name: str, content: str | None) -> None:
    if content is not None:
        Path(name).write_text(content)
    result = run_cli("import", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert set(counts(database).values()) == {0}


def test_names_are_shown_as_they_are(run_cli: RunCli) -> None:
    """Not as markup or emoji codes of the library that draws the tables."""
    Path("[red]x :smile:.csv").write_text(HEADER + "k,[bold]a[/bold],:cat:,model_a,1\n")
    assert run_cli("import", "[red]x :smile:.csv").exit_code == 0
    assert run_cli("retractions", "add", "battle", "1", "--reason", "[i]no[/i] :smile:").exit_code == 0
    assert run_cli("keys", "create", "[blue]key", "--scope", "read").exit_code == 0
    assert "[red]x :smile:.csv" in run_cli("imports", "list").stdout
    models = run_cli("models", "list").stdout
    assert "[bold]a[/bold]" in models
    assert ":cat:" in models
    assert "[i]no[/i] :smile:" in run_cli("retractions", "list").stdout
    assert "[blue]key" in run_cli("keys", "list").stdout
    assert "[blue]key" in run_cli("audit", "list").stdout
