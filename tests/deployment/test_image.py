"""The image's own commands, under an unprivileged user and on a source tree that no one can write to."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.database.embedded.account import choose_account
from tests.fixtures.waiting import free_port, wait_until

pytestmark = [pytest.mark.campaign, pytest.mark.own_database]

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
IN_IMAGE = "/srv/stable-arena"

Start = Callable[..., "subprocess.Popen[str]"]


def from_dockerfile(instruction: str) -> Any:
    """The JSON of the last such instruction."""
    return json.loads(re.findall(rf"^{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])


class Image:
    """The files of the image below a folder, and its commands as its user would run them."""

    def __init__(self, folder: Path, database_url: str) -> None:
        account = choose_account(folder)
        self._user = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
        self._tree, self._bin = folder / "srv", folder / "bin"
        self._interpreter = self._reachable_interpreter()
        writable = folder / "var"
        for name in ("app", "migrations"):
            shutil.copytree(ROOT / name, self._tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
        script = re.search(r"printf '(#!/bin/sh\\n.*?)' > /usr/local/bin/stable-arena", DOCKERFILE)
        assert script is not None
        self._bin.mkdir()
        text = script[1].replace("\\n", "\n").replace("/opt/venv/bin/python", str(self._interpreter))
        (self._bin / "stable-arena").write_text(text)
        (self._bin / "stable-arena").chmod(0o755)
        writable.mkdir()
        for name in ("cache", "backups", "tmp"):
            (writable / name).mkdir()
            if account.switch:
                os.chown(writable / name, account.uid, account.gid)
        for path in (self._tree, *self._tree.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.backups = writable / "backups"
        given = dict(pair.split("=", 1) for pair in re.findall(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE)[0].split())
        assert given["PYTHONPATH"] == IN_IMAGE
        self._environment = {
            **given,
            "PATH": f"{self._bin}:/usr/bin:/bin",
            "PYTHONPATH": f"{self._tree}:{sysconfig.get_path('purelib')}",
            "NUMBA_CACHE_DIR": str(writable / "cache"),
            "TMPDIR": str(writable / "tmp"),
            "STABLE_ARENA_DATABASE_URL": database_url,
        }
        self._before = self._files()

    def _reachable_interpreter(self) -> Path:
        for path in (Path(sys.executable), Path(f"/usr/bin/python3.{sys.version_info.minor}")):
            try:
                found = subprocess.run([path, "-c", ""], cwd="/", **self._user, check=False)
            except OSError:
                continue
            if found.returncode == 0:
                return path
        pytest.skip("no interpreter of this version that an unprivileged user can run")

    def start(self, *command: str, **environment: str) -> "subprocess.Popen[str]":
        words = [str(self._interpreter) if word == "/opt/venv/bin/python" else word for word in command]
        return subprocess.Popen(
            words,
            cwd=self._tree,
            env=self._environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._user,
        )

    def run(self, *command: str, **environment: str) -> str:
        process = self.start(*command, **environment)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return output

    def _files(self) -> set[Path]:
        return set(self._tree.rglob("*"))

    def assert_untouched(self) -> None:
        assert self._files() == self._before


@pytest.fixture
def image(cluster_folder: Path, database_url: str) -> Image:
    return Image(cluster_folder, database_url)


@pytest.fixture
def start(image: Image) -> Iterator[Start]:
    """Start one of the image's commands; ended after the test."""
    started = []

    def run(*command: str, **environment: str) -> "subprocess.Popen[str]":
        started.append(image.start(*command, **environment))
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=120).status_code == 200
    except httpx.TransportError:
        return False


def test_the_image_serves_compiles_works_and_backs_up(image: Image, start: Start) -> None:
    (entry,) = from_dockerfile("ENTRYPOINT")
    assert image.run(entry, *SERVICES["migrate"]["command"]).startswith("The schema is at ")
    assert re.search(r"^RUN stable-arena compile$", DOCKERFILE, re.MULTILINE)
    image.run(entry, "compile", NUMBA_OPT="0")  # where the code goes is the question, not how fast it is
    port = str(free_port())
    command = [port if word == "8000" else word for word in SERVICES["api"]["command"]]
    usual = [port if word == "8000" else word for word in from_dockerfile("CMD")]
    assert [word for word in command if word != "--no-worker"] == usual
    api = start(entry, *command)
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"))
    health = json.loads(re.findall(r"^HEALTHCHECK .*?CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[0])
    image.run(*(word.replace("8000", port) for word in health))
    worker = start(entry, *SERVICES["worker"]["command"])
    key = re.findall(r"sa_\w+", image.run(entry, "keys", "create", "test", "--scope", "admin", "--format", "json"))[-1]
    asked = httpx.post(
        f"http://127.0.0.1:{port}/api/v1/votes",
        headers={"Authorization": f"Bearer {key}"},
        json={"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "k"},
        timeout=120,
    )
    assert asked.status_code == 201, asked.text
    backup = SERVICES["backup"]["command"][0].split("stable-arena ")[1].split(" ||")[0].split()
    assert backup[1] == "/backups"
    assert "1 row" not in image.run(entry, backup[0], str(image.backups), *backup[2:])
    assert len(list(image.backups.iterdir())) == 1
    assert image.run(entry, "doctor", "--format", "json")
    assert (api.poll(), worker.poll()) == (None, None)
    image.assert_untouched()


def test_the_image_has_what_the_commands_need() -> None:
    assert re.search(r"^USER 10001$", DOCKERFILE, re.MULTILINE)
    copied = re.findall(r"^COPY (\w+) \./\1$", DOCKERFILE, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert sorted(copied) == ["app", "migrations"]
    assert {f"!{name}" for name in copied} <= set(ignored)
