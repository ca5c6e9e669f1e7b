"""What commands write: documents as JSON, rows as tables."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from app.cli.options import grouped
from app.cli.outputs import print_result
from app.cli.tables import render, shown, table_of


@dataclass
class Plain:
    name: str
    score: float


class Named(BaseModel):
    score: float = Field(serialization_alias="other")


def test_documents_of_every_kind_are_json_and_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    written = []
    for document in (Plain("é", float("nan")), {"score": float("inf")}, Named(score=1e-7)):
        print_result("json", document, output=tmp_path / "document.json")
        written.append((tmp_path / "document.json").read_text(encoding="utf-8"))
    assert [json.loads(text) for text in written] == [{"name": "é", "score": None}, {"score": None}, {"score": 1e-7}]
    assert written[0].splitlines()[1] == '  "name": "é",'


def test_rows_are_shown_by_the_names_of_their_fields() -> None:
    rows = [{"name": "a\nb", "n": 1234, "score": -0.01}, {"name": None, "n": 5, "score": None}]
    table = table_of(rows, "Name=name", "N=n", "Σ = 1=score:+.1f", ("Double", lambda row: row["n"] * 2))
    assert [line.split() for line in render([table]).splitlines()] == [
        ["Name", "N", "Σ", "=", "1", "Double"], ["a\\nb", "1,234", "+0.0", "2,468"], ["5", "–", "10"],
    ]  # fmt: skip
    assert [column.justify for column in table.columns] == ["left", "right", "right", "right"]


def test_a_value_is_shown_by_its_kind() -> None:
    assert [shown(value) for value in (True, 1234, None, ["a", "b"])] == ["yes", "1,234", "", "a, b"]
    assert shown(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02 03:04"
    assert [shown(value, "%") for value in (0.4567, None)] == ["45.7 %", "–"]


def test_a_dataclass_of_options_is_an_option_for_each_field() -> None:
    @dataclass(frozen=True)
    class Size:
        wide: Annotated[int, typer.Option(min=1, help="Columns.")] = 2
        tall: Annotated[bool, typer.Option("--tall")] = False

    found = list[object]()

    @grouped
    def command(name: str, *, size: Size, last: str = "z") -> None:
        """Say it."""
        found.append((name, size, last))

    application = typer.Typer()
    application.command()(command)
    runner = CliRunner()
    assert runner.invoke(application, ["a", "--wide", "3", "--tall"]).exit_code == 0
    assert runner.invoke(application, ["b", "--last", "y"]).exit_code == 0
    assert found == [("a", Size(3, tall=True), "z"), ("b", Size(), "y")]
    assert runner.invoke(application, ["a", "--wide", "0"]).exit_code == 2
    assert "Say it." in runner.invoke(application, ["--help"]).stdout
