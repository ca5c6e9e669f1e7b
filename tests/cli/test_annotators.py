import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

RunCli = Callable[..., Result]


@pytest.mark.usefixtures("on_database")
def test_the_case_of_an_annotator(vote_file: Path, run_cli: RunCli) -> None:
    assert run_cli("import", vote_file).exit_code == 0
    assert "Nothing stands out" not in run_cli("annotators", "show", "k24").stdout, "there is no board yet"
    assert json.loads(run_cli("annotators", "show", "k24", "--format", "json").stdout)["evidence"] is None
    assert run_cli("refit").exit_code == 0

    shown = run_cli("annotators", "show", "k24")
    assert shown.exit_code == 0, shown.stderr
    case = json.loads(run_cli("annotators", "show", "k24", "--format", "json").stdout)["evidence"]
    for sentence in case["summary"]:
        assert f"• {sentence}" in shown.stdout
    typical = case["agreement"]["expected"][1]
    (line,) = [line for line in shown.stdout.splitlines() if "as a typical annotator" in line]
    figures = (f"{100 * case['agreement']['accuracy']:.1f} %", f"{100 * typical['accuracy']:.1f} %")
    assert all(figure in line for figure in (*figures, f"{typical['accuracy_z']:+.1f}"))
    assert ("Most surprising votes" in shown.stdout) == bool(case["surprising"])
    assert "[red]dog" in shown.stdout, "names are no markup"

    flagged = ("--standing", "flagged", "--format", "json")
    listed = run_cli("annotators", "list", *flagged)
    assert listed.exit_code == 0, listed.stderr
    assert "k24" in [one["annotator"] for one in json.loads(listed.stdout)["annotators"]]
    assert run_cli("annotators", *flagged).stdout == listed.stdout, "the same without the word"

    fine = run_cli("annotators", "show", "k00").stdout
    assert "• Nothing stands out." in fine
    unknown = run_cli("annotators", "show", "nobody")
    assert unknown.exit_code == 1
    assert "there is no annotator" in unknown.stderr
