"""The tutorial for the builder of a frontend, step by step: with curl, in Python and in TypeScript."""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from pydantic import SecretStr

from app.settings import Settings
from tests.fixtures.crowds import crowd_votes

Ask = Callable[..., Any]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "connect-your-arena.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def steps(language: str, client: Client) -> str:
    """What the page shows in a language, at the address of the test's service."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    return "\n".join(blocks).replace(ADDRESS, str(client.base_url).rstrip("/"))


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, check=False, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def published(ask: Ask, gather: Ask, refit: Ask) -> None:
    """A service at step 9: models, old votes and a board."""
    for name in ("GPT 4", "Claude v1"):
        ask("POST", "/models", json={"name": name})
    gather(honest=12)
    assert refit()["state"] == "done"


def test_in_python(published: None, client: Client, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", keys["ingest"])
    seen: dict[str, Any] = {}
    exec(compile(steps("python", client), "connect-your-arena.md", "exec"), seen)  # noqa: S102  the page's own code
    seen["arena"].close()
    assert {seen["battle"].left, seen["revealed"].left} <= {"GPT 4", "Claude v1", *(f"model {i}" for i in range(6))}
    assert seen["row"].rank is not None


@pytest.mark.generators
def test_in_typescript(published: None, client: Client, keys: dict[str, str], tmp_path: Path) -> None:
    generators = ROOT / "clients" / "generators"
    for name in ("tsconfig.json", "package.json"):
        shutil.copy(generators / name, tmp_path)
    (tmp_path / "use.ts").write_text(steps("ts", client), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(generators / "node_modules")
    tools = generators / "node_modules" / ".bin"
    run(tools / "openapi-typescript", f"{client.base_url}/api/v1/openapi.json", "--output", "schema.ts", cwd=tmp_path)
    run(tools / "tsc", "--project", ".", cwd=tmp_path)
    said = run("node", "use.js", cwd=tmp_path, KEY=keys["ingest"]).splitlines()
    assert said[2].startswith("1 ")
    assert said[-1] == "pending 2"


@pytest.mark.campaign
def test_in_the_shell(client: Client, settings: Settings, tmp_path: Path) -> None:
    votes = crowd_votes(honest=12)
    with (tmp_path / "old-votes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(votes[0]))
        writer.writeheader()
        writer.writerows(votes)
    assert isinstance(settings.database_url, SecretStr)
    said = run(
        "bash", "-euo", "pipefail", "-c", steps("sh", client), cwd=tmp_path,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", PYTHONPATH=str(ROOT),
        STABLE_ARENA_DATABASE_URL=settings.database_url.get_secret_value(),
    )  # fmt: skip
    assert '"status":"created"' in said
    assert "old-votes.csv: 1,440 records, 1,440 votes recorded, 0 duplicates" in said
    assert re.search(r'"models":\[{"model":"model \d","score":[\d.]+,"lower":[\d.]+,"upper":[\d.]+,"rank":1}', said), (
        said
    )
    assert '"standing":"pending"' in said
