import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.database.engine import Database
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]


@pytest.fixture(autouse=True)
def _default_log() -> Iterator[None]:
    """Commands set up the log of the whole process."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def arena(on_database: None, vote_file: Path, run_cli: RunCli) -> None:
    """The vote file in a database of its own, which the commands are pointed at."""
    imported = run_cli("import", vote_file)
    assert imported.exit_code == 0, imported.stderr


def one_error_line(result: Any) -> str:
    assert result.stdout == ""
    lines: list[str] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return lines[0]


def test_nothing_published_yet(arena: None, run_cli: RunCli) -> None:
    result = run_cli("leaderboard")
    assert result.exit_code == 1
    assert "no refit has published" in one_error_line(result)


@pytest.mark.own_child
@pytest.mark.parametrize(
    "command", [["refit"], pytest.param(["policy", "preview", "min_votes=20"], marks=pytest.mark.campaign)]
)
def test_fits_obey_the_worker_s_limits(arena: None, run_cli: RunCli, configure: Configure, command: list[str]) -> None:
    configure(WORKER__FIT_SECONDS="0.000000001")
    result = run_cli(*command)
    assert result.exit_code == 1
    assert "the fit took longer than 1e-09 seconds" in one_error_line(result)


@pytest.mark.campaign
@pytest.mark.own_child
def test_refit_prints_the_board_that_leaderboard_prints(arena: None, run_cli: RunCli) -> None:
    refitted = run_cli("refit", "--format", "json")
    assert refitted.exit_code == 0, refitted.stderr
    board = json.loads(refitted.stdout)
    assert board["snapshot"]["number"] == 1
    assert board["snapshot"]["votes_read"] == 25 * 60 + 3
    again = json.loads(run_cli("leaderboard", "--format", "json").stdout)
    assert again == {**board, "age_seconds": again["age_seconds"]}
    rows = list(csv.DictReader(io.StringIO(run_cli("leaderboard", "--format", "csv").stdout)))
    assert [row["model"].removeprefix("'") for row in rows] == [row["model"] for row in board["models"]]
    assert "'=cat" in {row["model"] for row in rows}
    table = run_cli("leaderboard").stdout
    assert "[red]dog" in table
    assert "Snapshot 1 (am-elo)" in table
    plain = json.loads(run_cli("leaderboard", "--method", "m-elo", "--snapshot", "1", "--format", "json").stdout)
    assert plain["method"] == "m-elo"


def test_rate_and_the_service_agree(arena: None, run_cli: RunCli, vote_file: Path) -> None:
    assert run_cli("refit").exit_code == 0
    for method in ("am-elo", "m-elo"):
        published = json.loads(run_cli("leaderboard", "--format", "json", "--method", method).stdout)["models"]
        rated = json.loads(run_cli("rate", vote_file, "--format", "json", "--method", method).stdout)["models"]
        # of models on record, of their neighbours, and of other boards: a file has none of these
        known = ["provisional", "organization", "license", "link", "tied", "tied_with", "compared"]
        assert [list(row) for row in published] == [[*row, *known] for row in rated]
        for ours, theirs in zip(published, rated, strict=True):
            assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=1e-6)


def test_an_unknown_snapshot(arena: None, run_cli: RunCli) -> None:
    result = run_cli("leaderboard", "--snapshot", "9")
    assert result.exit_code == 1
    assert "there is no snapshot 9" in one_error_line(result)


@pytest.mark.usefixtures("on_database")
def test_a_refit_that_publishes_nothing_is_one_line(run_cli: RunCli) -> None:
    result = run_cli("refit")
    assert result.exit_code == 1
    assert "the refit ended as failed" in one_error_line(result)


def test_annotators_are_listed_and_decided_on(arena: None, run_cli: RunCli) -> None:
    assert run_cli("refit").exit_code == 0
    flagged = json.loads(run_cli("annotators", "--standing", "flagged", "--format", "json").stdout)["annotators"]
    assert [one["annotator"] for one in flagged] == ["k24"]
    everybody = json.loads(run_cli("annotators", "--format", "json").stdout)["annotators"]
    assert (len(everybody), everybody[0]["annotator"]) == (26, "k24")
    assert len(list(csv.DictReader(io.StringIO(run_cli("annotators", "--format", "csv").stdout)))) == 26
    assert "k24" in run_cli("annotators").stdout

    decided = run_cli("annotators", "decide", "k24", "exclude", "--reason", "votes against everyone")
    assert decided.exit_code == 0, decided.stderr
    assert "k24: exclude is recorded; the standing is now excluded." in decided.stdout
    board = json.loads(run_cli("refit", "--format", "json").stdout)
    assert board["snapshot"]["votes_used"] == 24 * 60
    shadow = json.loads(run_cli("annotators", "--standing", "excluded", "--format", "json").stdout)["annotators"]
    assert shadow[0]["ability"] is None
    assert shadow[0]["shadow_ability"] < 0
    assert f"({shadow[0]['shadow_ability']:.3f})" in run_cli("annotators", "--standing", "excluded").stdout


def test_decisions_that_cannot_be(arena: None, run_cli: RunCli) -> None:
    for arguments, status in (
        (["decide", "nobody", "exclude", "--reason", "a test"], 1),
        (["decide", "k00", "dismiss", "--reason", "no flag"], 1),
        (["decide", "k00", "exclude", "--reason", " "], 2),
        (["decide", "k00", "exclude"], 2),
        (["decide", "k00", "ban", "--reason", "a test"], 2),
        (["--standing", "odd"], 2),
    ):
        result = run_cli("annotators", *arguments)
        assert (result.exit_code, result.stdout) == (status, ""), arguments


def test_reproducing_a_snapshot(arena: None, database: Database, run_cli: RunCli) -> None:
    assert run_cli("refit").exit_code == 0
    told = run_cli("refit", "--reproduce", "1")
    assert (told.exit_code, told.stderr) == (0, "")
    assert "the votes it was published with" in told.stdout
    assert "largest difference: 0\n" in told.stdout
    made = json.loads(run_cli("refit", "--reproduce", "1", "--format", "json").stdout)
    assert (made["number"], made["votes"], made["reproduced"], made["largest_difference"]) == (1, 25 * 60 + 3, True, 0)
    with database.begin() as conn:
        conn.exec_driver_sql("UPDATE snapshot_models SET score = score + 2 WHERE method = 'am-elo'")
    told = run_cli("refit", "--reproduce", "1")
    assert told.exit_code == 1
    assert "score: 2\n" in told.stdout
    with database.begin() as conn:
        conn.exec_driver_sql(
            "UPDATE snapshots SET diagnostics = diagnostics - 'method_version', code_version = '0.1.0'"
        )
    told = run_cli("refit", "--reproduce", "1")
    assert (told.exit_code, told.stderr) == (0, "")
    assert "version 0.1.0" in told.stdout
    assert "score: 2\n" in told.stdout
    made = json.loads(run_cli("refit", "--reproduce", "1", "--format", "json").stdout)
    assert (made["code_version"], made["same_method"], made["reproduced"]) == ("0.1.0", False, False)
    assert run_cli("refit", "--reproduce", "9").exit_code == 1
    with database.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM snapshots").scalar_one() == 1


def test_why_exclusions_are_accepted(arena: None, run_cli: RunCli) -> None:
    assert run_cli("refit", "--reason", "for nothing").exit_code == 2
    accepted = run_cli("refit", "--accept-exclusions", "--reason", " looked at them ")
    assert accepted.exit_code == 0, accepted.stderr
    entry = json.loads(run_cli("audit", "list", "--format", "json").stdout)["entries"][0]
    assert (entry["actor"], entry["action"]) == ("command line", "refit.accept_exclusions")
    assert entry["detail"] == {"reason": "looked at them"}


def test_whether_the_votes_are_enough(arena: None, run_cli: RunCli, tmp_path: Path) -> None:
    assert run_cli("refit").exit_code == 0
    shown = run_cli("leaderboard", "--confidence", "2")
    assert shown.exit_code == 0, shown.stderr
    found = json.loads(run_cli("leaderboard", "--confidence", "2", "--format", "json").stdout)
    assert found["sentence"] in shown.stdout
    assert "P(best 2)" in shown.stdout
    assert ("Undecided" in shown.stdout) is bool(found["undecided"])
    assert run_cli("leaderboard", "--confidence", "1", "--output", tmp_path / "enough.json").exit_code == 0
    assert json.loads((tmp_path / "enough.json").read_text())["k"] == 1
    for wrong in (["--method", "elo"], ["--compare", "m-elo"], ["--format", "csv"]):
        refused = run_cli("leaderboard", "--confidence", "2", *wrong)
        assert refused.exit_code == 2
        assert "--confidence" in one_error_line(refused)
