"""Pictures of leaderboards that were rated or exported."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_rated_file_is_drawn(run_cli: RunCli, vote_file: Path, form: str) -> None:
    assert run_cli("rate", vote_file, "--output", f"board.{form}").exit_code == 0
    drawn = run_cli("plot", f"board.{form}", "--output", "board.svg")
    assert drawn.exit_code == 0, drawn.stderr
    picture = ET.fromstring(Path("board.svg").read_text())  # noqa: S314  written by this test
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    models = [text for text in texts if text in {"ant", "bee=2", "=cat", "[red]dog", "eel"}]
    assert models == ["ant", "bee=2", "=cat", "[red]dog", "eel"]
    assert any("score" in (text or "") for text in texts)


def test_a_page_that_asks_no_other_site_and_a_picture(run_cli: RunCli) -> None:
    rows = [{"model": f"model-{at} <b>", "score": 2000.0 - at, "lower": 1990.0, "upper": 2010.0} for at in range(300)]
    Path("board.json").write_text(json.dumps(rows))
    assert run_cli("plot", "board.json", "--output", "board.html").exit_code == 0
    page = Path("board.html").read_text()
    assert len(page) < 200_000
    assert "model-299 &lt;b&gt;" in page
    assert not re.findall(r"<script|<link|(?:src|href)=", page)
    assert run_cli("plot", "board.json", "--output", "board.png", "--top", 2).exit_code == 0
    assert Path("board.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_no_leaderboard(run_cli: RunCli, vote_file: Path) -> None:
    for name, content, said in (
        ("x.txt", "", "unknown kind"),
        ("x.json", "[1]", "no list of models"),
        ("x.json", "{", "cannot be read"),
        ("x.jsonl", json.dumps({"model": "a"}), "missing score (found: model)"),
    ):
        Path(name).write_text(content)
        refused = run_cli("plot", name)
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    refused = run_cli("plot", vote_file)
    assert "rate a vote file first: stable-arena rate" in refused.stderr
    assert run_cli("plot", "missing.json").exit_code == 2
