import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import Result

from app.cli import failures, outputs
from app.cli.failures import run_guarded
from app.cli.rate import offline
from app.errors import ConflictError
from app.rating.errors import NotConvergedError, RatingError

RunCli = Callable[..., Result]

HEADER = "annotator,model_a,model_b,winner\n"
ENTER = "from app.cli.command import run; run()"


def assert_refused(run_cli: RunCli, *arguments: object, message: str) -> None:
    result = run_cli("rate", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min-votes", -1], "--min-votes must be at least 0, is -1"),
        (["--min-ability", "nan"], "--min-ability must be a finite number"),
        (["--min-probability", 0.4], "--min-probability must be at least 0.5, is 0.4"),
        (["--min-probability", 1], "--min-probability must be at most 0.999, is 1.0"),
        (["--prior-sd", 0], "--prior-sd must be at least 0.05, is 0.0"),
        (["--prior-sd", 1], "--prior-sd must be at most 0.6, is 1.0"),
        (["--prior-sd", "inf"], "--prior-sd must be a finite number"),
        (["--prior-sd", "wide"], "--prior-sd must be a number or 'estimated', is 'wide'"),
        (["--ability-cap", 2], "No such option: --ability-cap"),
        (["--no-bias-correction"], "No such option: --no-bias-correction"),
        (["--base", "inf"], "--base must be a finite number"),
        (["--shuffles", 1], "'--shuffles': Input should be greater than or equal to 2"),
        (["--shuffles", 10**9], "'--shuffles': Input should be less than or equal to 1000000"),
        (["--seed", -1], "'--seed': Input should be greater than or equal to 0"),
        (["--plain", "--prior-sd", 0.3], "--plain means no prior and no limit"),
        (["--interval", "profile"], "--interval"),
        (["--confidence", 1], "--confidence must be less than 1, is 1.0"),
        (["--confidence", "nan"], "--confidence must be a finite number, is nan"),
        (["--flag-rule", "a feeling"], "--flag-rule"),
        (["--flag-rule", "probability"], "--flag-rule"),
        (["--anchor", "ant"], "--anchor must be MODEL=SCORE, a finite number, is 'ant'"),
        (["--anchor", "ant=x"], "--anchor must be MODEL=SCORE"),
        (["--anchor", "=5"], "--anchor must be MODEL=SCORE"),
        (["--anchor", "ant=nan"], "--anchor must be MODEL=SCORE, a finite number"),
        (["--anchor", "nobody=5"], "the file has no model 'nobody', which --anchor names"),
        (["--min-votes", 1_000], "no annotator has more than 1000 votes"),
        (["--output", "."], "is a folder"),
        (["--output", "b.ods"], ".ods is none of the known endings"),
        (["--output", "absent/x.json"], "does not exist"),
        (["--method", "trueskill"], "--method"),
        (["--interval", "wide"], "--interval"),
        (["--format", "xml"], "--format"),
        (["--min-votes", "many"], "--min-votes"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_setting_out_of_range_is_refused_in_one_line(
    run_cli: RunCli, vote_file: Path, arguments: list[object], message: str
) -> None:
    assert_refused(run_cli, vote_file, *arguments, message=message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (HEADER, "has no votes"),
        ("a,b\n1,2\n", "missing columns: annotator, model_a, model_b, winner (found: a, b)"),
        ("a\x1b[31m,b\n1,2\n", "(found: a\\x1b[31m, b)"),
        ("model_a,model_b,winner\na,b,tie\n", "--pool-annotators"),
        (HEADER + "k,a,b,tie,extra\n", "line 2: 5 fields"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(
    run_cli: RunCli, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "v.csv"
    path.write_text(content)
    assert_refused(run_cli, path, message=message)


def test_no_file_at_all(run_cli: RunCli, tmp_path: Path) -> None:
    assert_refused(run_cli, tmp_path / "absent.csv", message="does not exist")
    assert_refused(run_cli, tmp_path, message="is a folder")
    assert_refused(run_cli, message="FILE")


def test_ten_invalid_votes_are_listed_and_the_rest_counted(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "k,a,b,tie\n" + "k,a,b,drew\n" * 1_500)
    result = run_cli("rate", path)
    lines = result.stderr.splitlines()
    assert result.exit_code == 2
    assert "1,500 of 1,501 votes are not valid (--skip-invalid leaves them out)" in lines[0]
    assert "unknown verdicts: drew 1,500 times (--verdict drew=left" in lines[0]
    assert lines[1] == "  line 3, winner: unknown outcome 'drew'"
    assert lines[10].startswith("  line 12, winner: ")
    assert lines[11:] == ["  … and 1,490 more"]


def test_no_valid_vote(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "k,a,b,drew\n")
    assert_refused(run_cli, path, "--skip-invalid", message="has 1 record and no valid vote")


def test_plain_names_the_annotators_who_have_no_finite_ability(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    torn = "torn,a,b,model_a\n" * 40 + "torn,a,b,model_b\n" * 20
    path.write_text(HEADER + torn + "sure,a,b,model_a\n" * 60)
    assert_refused(run_cli, path, "--plain", message="no finite maximum")
    assert run_cli("rate", path, "--plain").stderr.endswith(": sure\n")


def fail_with(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (NotConvergedError("stopped early", np.zeros(1), np.zeros(1)), 1, "error: stopped early\n"),
        (RatingError("no"), 1, "error: no\n"),
        (ConflictError("taken"), 1, "error: taken\n"),
        (OSError(28, "No space left on device", "b.json"), 1, "error: b.json: No space left on device\n"),
        (ZeroDivisionError("oh\nno"), 1, "error: unexpected ZeroDivisionError: oh\\nno (a bug; "),
    ],
)
def test_what_is_not_the_inputs_fault_exits_1(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, line: str
) -> None:
    assert run_guarded(lambda: fail_with(error)) == code
    assert capsys.readouterr().err.startswith(line)


def test_a_bug_shows_its_traceback_to_developers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "sys", SimpleNamespace(flags=SimpleNamespace(dev_mode=True)))
    with pytest.raises(ZeroDivisionError):
        run_guarded(lambda: fail_with(ZeroDivisionError("oh")))


def test_parquet_is_not_for_a_terminal(run_cli: RunCli, vote_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "stdout_is_terminal", lambda: True)
    assert_refused(run_cli, vote_file, "--format", "parquet", message="Parquet cannot be shown on a terminal")


def test_an_interrupt_exits_130(run_cli: RunCli, vote_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "rate_votes", lambda *_, **__: fail_with(KeyboardInterrupt()))
    result = run_cli("rate", vote_file)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Traceback" not in result.stderr


def test_a_failed_write_leaves_no_draft(
    run_cli: RunCli, vote_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: fail_with(OSError(28, "No space left on device")))
    result = run_cli("rate", vote_file, "--output", tmp_path / "b.json")
    assert (result.exit_code, result.stderr) == (1, "error: No space left on device\n")
    assert [path.name for path in tmp_path.iterdir()] == ["votes.csv"]


@pytest.mark.campaign
def test_a_reader_that_leaves_early_is_not_an_error_to_talk_about(vote_file: Path) -> None:
    command = [sys.executable, "-c", ENTER, "rate", str(vote_file), "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_group_itself(run_cli: RunCli) -> None:
    assert run_cli("--version").stdout.startswith("stable-arena ")
    assert run_cli("nonsense").stderr == "error: No such command 'nonsense'.\n"
    assert run_cli("nonsense").exit_code == 2
    for result in (run_cli(), run_cli("--help")):
        assert result.exit_code == 0
        assert "rate" in result.stdout
