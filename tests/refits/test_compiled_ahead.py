"""`stable-arena compile` compiles every kernel that the service and `rate` run."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.database.engine import Database
from app.refits.load import load_fit_input
from tests.fixtures.crowds import crowd_votes

FRESH = """
import json, pickle, sys
from pathlib import Path
from app.cli.command import application as cli
from app.rating.compiled import KERNELS
from app.refits.fit.fit import fit_snapshot
from app.votes.batch_items import BatchItems
from typer.testing import CliRunner

def run(*words):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output

def signatures():
    return {(kernel.py_func.__qualname__, str(one)) for kernel in KERNELS for one in kernel.signatures}

fit_input, votes = Path(sys.argv[1]), sys.argv[2]
run("compile")
ahead = signatures()
fit_snapshot(pickle.loads(fit_input.read_bytes()))
for method in ("am-elo", "m-elo", "elo"):
    run("rate", votes, "--method", method)
BatchItems(b'{"votes": [{}, {}]}', most=10)
print(json.dumps(sorted(signatures() - ahead)))
"""


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_refit_and_rate_compile_nothing(
    database: Database, stored_crowd: None, store_policy: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    with database.read() as conn:
        fit_input = load_fit_input(conn)
    (tmp_path / "input").write_bytes(pickle.dumps(fit_input))
    votes = crowd_votes(honest=12, flip=2)
    file = tmp_path / f"votes.{kind}"
    if kind == "csv":
        lines = [",".join(votes[0]), *(",".join(vote.values()) for vote in votes)]
    else:
        lines = [json.dumps(vote) for vote in votes]
    file.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-c", FRESH, tmp_path / "input", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
