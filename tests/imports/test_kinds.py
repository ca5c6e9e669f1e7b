"""Files that say who is a person and who a judge."""

from collections.abc import Callable
from typing import Any

from app.imports.runner import ImportRunner

Ask = Callable[..., Any]
HEADER = "annotator,model_a,model_b,winner,annotator_kind\n"


def test_a_file_says_what_its_annotators_are(post: Ask, ask: Ask, import_runner: ImportRunner) -> None:
    body = post(HEADER + "gpt,x,y,tie,judge\nann,x,y,model_a,human\nbob,x,y,model_b,\ngpt,x,z,tie,human\n").json()
    import_runner.run_next()
    done = ask("GET", f"/imports/{body['id']}", scope="ingest").json()
    assert (done["counts"]["created"], done["counts"]["rejected"]) == (3, 1)
    assert [fault["place"] for fault in done["faults"]] == ["line 5"]
    shown = ask("GET", "/annotators", scope="review:read").json()["items"]
    assert {one["annotator"]: one["kind"] for one in shown} == {"gpt": "judge", "ann": "human", "bob": None}


def test_unknown_kinds_are_refused(post: Ask, ask: Ask, import_runner: ImportRunner) -> None:
    body = post(HEADER + "gpt,x,y,tie,robot\n").json()
    import_runner.run_next()
    done = ask("GET", f"/imports/{body['id']}", scope="ingest").json()
    assert (done["state"], done["counts"]["rejected"]) == ("failed", 1)
