"""`rate --criterion`: the votes on one question."""

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

RunCli = Callable[..., Result]
HEADER = "annotator,model_a,model_b,winner,battle_id,criterion\n"
TWO_ORDERS = HEADER + "".join(
    f"ann,{a},{b},{winner},{battle},{criterion}\n"
    for battle in range(12)
    for a, b in [("x", "y"), ("y", "z"), ("x", "z")][battle % 3 : battle % 3 + 1]
    for winner, criterion in [("tie" if battle < 6 else "model_a", ""), ("tie" if battle < 6 else "model_b", "speed")]
)


def test_one_criterion_is_rated(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(TWO_ORDERS)
    arguments = ("rate", path, "--min-votes", 0, "--format", "json")
    overall, speed = (json.loads(run_cli(*arguments, *more).stdout) for more in ((), ("--criterion", "speed")))
    assert (overall["votes"]["read"], overall["votes"]["used"], overall["votes"]["duplicates"]) == (24, 12, 0)
    assert [row["model"] for row in overall["models"]] == ["x", "y", "z"]
    assert [row["model"] for row in speed["models"]] == ["z", "y", "x"]
    assert (overall["settings"]["criterion"], speed["settings"]["criterion"]) == ("overall", "speed")
    unknown = run_cli(*arguments, "--criterion", "depth")
    assert (unknown.exit_code, "overall, speed" in unknown.stderr) == (2, True)


def test_what_the_criteria_of_squality_say(run_cli: RunCli, data_folder: Path) -> None:
    """By every criterion people write the best summaries; four annotators do not tell the two machines apart."""
    path = data_folder / "squality_criteria.csv"
    for criterion in ("overall", "correctness", "selection"):
        result = run_cli("rate", path, "--criterion", criterion, "--format", "json")
        rows = json.loads(result.stdout)["models"]
        assert [row["model"] for row in rows] == ["human", "bart-dpr", "bart"]
        assert rows[0]["lower"] > rows[1]["score"] - 2.0
        assert rows[2]["upper"] > rows[1]["lower"]
