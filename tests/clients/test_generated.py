"""Clients that others generate from the API's description, against the service. make clients installs generators."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

pytestmark = [pytest.mark.generators, pytest.mark.arena]
GENERATORS = Path(__file__).parents[2] / "clients" / "generators"
PYTHON = GENERATORS / ".venv" / "bin"
NODE = GENERATORS / "node_modules" / ".bin"
EXPECTED = ["vote created", "leaderboard 1 2 3", "policy 50", "preview True", "import queued", "refused 401"]


def run(*command: object, cwd: Path, **options: Any) -> str:
    done = subprocess.run(
        [str(word) for word in command], check=False, cwd=cwd, capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def description(client: Client, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_bytes(client.get("/api/v1/openapi.json").content)
    return path


@pytest.fixture
def arguments(client: Client, keys: dict[str, str]) -> list[str]:
    return [str(client.base_url).rstrip("/"), keys["ingest"], keys["admin"]]


def test_in_python(description: Path, arguments: list[str], tmp_path: Path) -> None:
    generate = (PYTHON / "openapi-python-client", "generate", "--path", description, "--meta", "none")
    said = run(*generate, "--output-path", tmp_path / "arena_client", cwd=tmp_path, env={"PATH": str(PYTHON)})
    assert "will not be generated" not in said
    assert "Unable to parse" not in said
    shutil.copy(GENERATORS / "use.py", tmp_path)
    types = (sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--python-executable")
    run(*types, PYTHON / "python", "use.py", cwd=tmp_path)
    assert run(PYTHON / "python", "use.py", *arguments, cwd=tmp_path).splitlines() == EXPECTED


def test_in_typescript(description: Path, arguments: list[str], tmp_path: Path) -> None:
    for name in ("use.ts", "tsconfig.json", "package.json"):
        shutil.copy(GENERATORS / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(GENERATORS / "node_modules")
    run(NODE / "openapi-typescript", description, "--output", "schema.ts", cwd=tmp_path)
    run(NODE / "tsc", "--project", ".", cwd=tmp_path)
    said = run("node", "use.js", *arguments, cwd=tmp_path).splitlines()
    assert said == [line.replace("True", "true") for line in EXPECTED]


def test_the_component_as_installed(tmp_path: Path) -> None:
    run("npm", "pack", "--pack-destination", tmp_path, cwd=GENERATORS.parent / "battle")
    (package,) = tmp_path.glob("*.tgz")
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=tmp_path)
    (tmp_path / "use.ts").write_text(
        """
        import "stable-arena-battle";
        const battle = document.createElement("stable-arena-battle");
        battle.addEventListener("revealed", (event) => { const side: string = event.detail.left; console.log(side); });
        // @ts-expect-error
        battle.addEventListener("voted", (event) => event.detail.nothing);
        """
    )
    options = ("--noEmit", "--strict", "--lib", "es2022,dom", "--module", "nodenext", "use.ts")
    run(NODE / "tsc", *options, cwd=tmp_path)
    run("node", "--input-type=module", "--eval", 'import "stable-arena-battle"', cwd=tmp_path)
