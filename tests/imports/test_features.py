"""Files that say what the two answers of a vote measure."""

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from app.database.engine import Database
from app.imports.runner import ImportRunner

Ask = Callable[..., Any]
HEADER = "annotator,model_a,model_b,winner,length_a,length_b,features\n"


def features_on_record(database: Database) -> list[Any]:
    with database.read() as conn:
        return list(conn.execute(text("SELECT features FROM votes ORDER BY id")).scalars())


def test_columns_and_features_are_kept_with_the_votes(
    post: Ask, ask: Ask, import_runner: ImportRunner, database: Database
) -> None:
    rows = [
        'k,x,y,tie,120,80.5,"{""bold"": [1, 0], ""lists"": null}"\n', "l,x,y,tie,3,,\n",
        'm,x,y,tie,3,4,"{""bold"": 1}"\n', "n,x,y,tie,many,4,\n", 'o,x,y,tie,,,"{""side"": [1, 0]}"\n',
    ]  # fmt: skip
    body = post(HEADER + "".join(rows), skip_invalid="true").json()
    import_runner.run_next()
    done = ask("GET", f"/imports/{body['id']}", scope="ingest").json()
    assert (done["counts"]["created"], done["counts"]["rejected"]) == (2, 3)
    places = ["line 4, features", "line 5, length_a", "line 6, features"]
    assert [fault["place"] for fault in done["faults"]] == places
    assert done["faults"][2]["detail"].startswith("must not have side"), done["faults"]
    assert features_on_record(database) == [{"length": [120, 80.5], "bold": [1, 0]}, None]


def test_the_measures_of_lmarena_are_kept(post: Ask, import_runner: ImportRunner, database: Database) -> None:
    measured = {
        **{f"sum_assistant_{side}_tokens": number for side, number in (("a", 120), ("b", 80))},
        **{f"header_count_{side}": {"h1": 1, "h2": number} for side, number in (("a", 2), ("b", 0))},
    }
    vote = {"id": "1", "model_a": "x", "model_b": "y", "winner": "model_a", "evaluation_session_id": "s", "judge": "k"}
    post(json.dumps({**vote, "conv_metadata": measured}) + "\n", filename="votes.jsonl")
    import_runner.run_next()
    assert features_on_record(database) == [{"length": [120, 80], "headers": [3, 1]}]
