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

fit_input, *files = sys.argv[1:]
run("compile")
ahead = signatures()
fit_snapshot(pickle.loads(Path(fit_input).read_bytes()))
for votes in files:
    for method in ("am-elo", "m-elo", "elo"):
        run("rate", votes, "--method", method)
BatchItems(b'{"votes": [{}, {}]}', most=10)
print(json.dumps(sorted(signatures() - ahead)))
"""


@pytest.mark.campaign
def test_a_refit_and_rate_compile_nothing(
    database: Database, stored_crowd: None, store_policy: Callable[..., None], tmp_path: Path
) -> None:
    with database.read() as conn:
        fit_input = load_fit_input(conn)
    (tmp_path / "input").write_bytes(pickle.dumps(fit_input))
    votes = crowd_votes(honest=12, flip=2)
    lines = [",".join(votes[0]), *(",".join(vote.values()) for vote in votes)]
    (tmp_path / "votes.csv").write_text("\n".join(lines))
    (tmp_path / "votes.jsonl").write_text("\n".join(json.dumps(vote) for vote in votes))
    given = [tmp_path / name for name in ("input", "votes.csv", "votes.jsonl")]
    done = subprocess.run([sys.executable, "-c", FRESH, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
