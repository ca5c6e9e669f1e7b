"""What commands write: documents as JSON."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from app.cli.outputs import write_json


@dataclass
class Plain:
    name: str
    score: float


class Named(BaseModel):
    score: float = Field(serialization_alias="other")


def test_documents_of_every_kind_are_json_and_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    written = []
    for document in (Plain("é", float("nan")), {"score": float("inf")}, Named(score=1e-7)):
        write_json(document, tmp_path / "document.json")
        written.append((tmp_path / "document.json").read_text(encoding="utf-8"))
    assert [json.loads(text) for text in written] == [{"name": "é", "score": None}, {"score": None}, {"score": 1e-7}]
    assert written[0].splitlines()[1] == '  "name": "é",'
