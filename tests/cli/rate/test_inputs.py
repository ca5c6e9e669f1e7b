"""What `rate` and `import` read beside one plain file."""

import gzip
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.command import application

RunCli = Callable[..., Any]
HEADER = "annotator,model_a,model_b,winner\n"
ROWS = [
    f"k{k},m{i},m{j},{'model_b' if (i + j + k) % 4 == 0 else 'model_a'}\n"
    for k in range(6)
    for i, j in combinations(range(4), 2)
]


pytestmark = pytest.mark.usefixtures("own_folder")


def rated(run_cli: RunCli, *words: object) -> dict[str, Any]:
    result = run_cli("rate", *words, "--min-votes", 0, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_several_files_count_together(run_cli: RunCli) -> None:
    Path("all.csv").write_text(HEADER + "".join(ROWS))
    Path("one.csv").write_text(HEADER + "".join(ROWS[:20]))
    Path("two.json").write_text(
        json.dumps([dict(zip(HEADER.strip().split(","), row.strip().split(","), strict=True)) for row in ROWS[20:]])
    )
    assert rated(run_cli, "one.csv", "two.json")["models"] == rated(run_cli, "all.csv")["models"]
    Path("one.csv").write_text(HEADER + "k,a,b,won\n")
    refused = run_cli("rate", "one.csv", "all.csv")
    assert refused.exit_code == 2
    assert "one.csv, line 2, winner" in refused.stderr


def test_a_prefix_keeps_studies_apart(run_cli: RunCli) -> None:
    for name in ("study1.csv", "study2.csv"):
        Path(name).write_text(HEADER + "".join(ROWS))
    assert len(rated(run_cli, "study1.csv", "study2.csv")["annotators"]) == 6
    apart = rated(run_cli, "study1.csv", "study2.csv", "--annotator-prefix", "{file}/")["annotators"]
    assert {row["annotator"].split("/")[0] for row in apart} == {"study1", "study2"}
    assert len(apart) == 12


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "csv.gz"])
def test_standard_input(kind: str) -> None:
    objects = [dict(zip(HEADER.strip().split(","), row.strip().split(","), strict=True)) for row in ROWS]
    content = {
        "csv": (HEADER + "".join(ROWS)).encode(),
        "json": json.dumps(objects, indent=1).encode(),
        "jsonl": "\n".join(map(json.dumps, objects)).encode(),
        "csv.gz": gzip.compress((HEADER + "".join(ROWS)).encode()),
    }[kind]
    result = CliRunner().invoke(application, ["rate", "-", "--min-votes", "0", "--format", "json"], input=content)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["votes"]["used"] == len(ROWS)


def test_errors_in_standard_input_name_it() -> None:
    result = CliRunner().invoke(application, ["rate", "-"], input="a,b\n1,2\n")
    assert result.exit_code == 2
    assert "standard input: missing columns" in result.stderr
    twice = CliRunner().invoke(application, ["rate", "-", "-"], input="")
    assert "can be read once" in twice.stderr


def test_too_few_votes_say_what_to_type(run_cli: RunCli) -> None:
    Path("few.csv").write_text(HEADER + "".join(ROWS))
    for method in ("am-elo", "elo"):
        refused = run_cli("rate", "few.csv", "--method", method)
        assert "no annotator has more than 50 votes" in refused.stderr
        assert "δ is the number of votes that an annotator must exceed to count" in refused.stderr
        assert "--min-votes 5 counts at least one annotator, --min-votes 0 all" in refused.stderr
    assert run_cli("rate", "few.csv", "--min-votes", 5).exit_code == 0


def test_assumptions_are_said(run_cli: RunCli) -> None:
    rows = [row.strip() + ",3/25/2026\n" for row in ROWS]
    Path("dated.csv").write_text(HEADER.strip() + ",timestamp\n" + "".join(rows))
    assert (
        "note: dates are read as month/day/year, because of '3/25/2026'"
        in run_cli("rate", "dated.csv", "--min-votes", 0).stderr
    )


FRENCH = {"model_a": "gauche", "model_b": "la droite = B"}


def in_french(row: str) -> str:
    start, word = row.strip().rsplit(",", 1)
    return f"{start},{FRENCH[word]}\n"


def test_verdicts_in_other_words(run_cli: RunCli) -> None:
    Path("english.csv").write_text(HEADER + "".join(ROWS))
    Path("french.csv").write_text(HEADER + "".join(map(in_french, ROWS)), encoding="utf-8")
    meant = ("--verdict", "gauche=left", "--verdict", "la droite = B=model_b")
    assert rated(run_cli, "french.csv", *meant)["models"] == rated(run_cli, "english.csv")["models"]

    refused = run_cli("rate", "french.csv", *meant[:2])
    right = sum("model_b" in row for row in ROWS)
    assert refused.exit_code == 2
    assert f"unknown verdicts: la droite = B {right} times" in refused.stderr
    for wrong in ("gauche", "gauche=", "=left", "gauche=links"):
        assert run_cli("rate", "french.csv", "--verdict", wrong).exit_code == 2
    together = ("--verdict", "gauche=left, la droite = B=right")
    assert rated(run_cli, "french.csv", *together)["models"] == rated(run_cli, "english.csv")["models"]
    assert run_cli("rate", "french.csv", *meant, "--verdict", "gauche=tie").exit_code == 2, "two meanings"
    two = run_cli("rate", "french.csv", *meant, "--verdict", "x=left,x=right")
    assert (two.exit_code, "two meanings" in two.stderr) == (2, True)


def test_verdicts_of_named_columns_are_in_any_case(run_cli: RunCli) -> None:
    shouted = [row.replace("gauche", "GAUCHE") for row in map(in_french, ROWS)]
    Path("label.csv").write_text(HEADER.replace("winner", "Label") + "".join(shouted))
    votes = rated(
        run_cli,
        "label.csv",
        "--columns",
        "winner=Label",
        "--verdict",
        "Gauche=left",
        "--verdict",
        "La droite = b=right",
    )
    assert votes["votes"]["rejected"] == 0
    named = ("rate", "label.csv", "--columns", "winner=Label")
    two = run_cli(*named, "--verdict", "Gauche=left", "--verdict", "gauche=right", "--verdict", "la droite = b=right")
    assert (two.exit_code, "two meanings" in two.stderr) == (2, True)


def test_equal_rows_without_a_battle_are_noted(run_cli: RunCli, tmp_path: Path) -> None:
    header = "annotator,model_a,model_b,winner,battle_id\n"
    for battles, noted in ((("", "", ""), True), (("x", "y", "z"), False), (("", ""), False)):
        path = tmp_path / "v.csv"
        path.write_text(header + "".join(f"k,a,b,tie,{battle}\n" for battle in battles) + "k,a,c,tie,\nl,c,a,tie,\n")
        document = json.loads(run_cli("rate", path, "--min-votes", 0, "--method", "m-elo", "--format", "json").stdout)
        assert ("equal-rows" in [one["code"] for one in document["diagnostics"]["warnings"]]) == noted
