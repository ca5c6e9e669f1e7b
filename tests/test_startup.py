"""What a server process loads when it starts."""

import json
import subprocess
import sys
from pathlib import Path

import app

HEAVY = ("numba", "scipy", "polars")
PROGRAM = """
import importlib, json, sys
heavy, *names = sys.argv[1:]
found = {}
for name in names:
    importlib.import_module(name)
    found[name] = [one for one in heavy.split() if one in sys.modules]
print(json.dumps(found))
"""


def endpoints() -> list[str]:
    root = Path(app.__file__).parent
    files = sorted(root.rglob("endpoints.py"))
    return [".".join(("app", *file.relative_to(root).with_suffix("").parts)) for file in files]


def test_endpoints_load_no_mathematics_and_no_tables() -> None:
    names = endpoints()
    assert len(names) > 40
    command = [sys.executable, "-c", PROGRAM, " ".join(HEAVY), *names, "app.main"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: loaded for name, loaded in found.items() if loaded} == {}
