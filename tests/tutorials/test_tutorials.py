"""Each tutorial, followed to the letter from an empty folder: every command, and what it prints.

By default the project's own commands run in this process, on the test's database, and `serve` is the test's service.
The campaign starts all of them as processes, with an embedded database of their own.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from httpx import Client

from tests.fixtures.environment import Configure
from tests.fixtures.waiting import free_port
from tests.tutorials.colleagues import DEEDS
from tests.tutorials.reader import ROOT, Reader

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BEGINNING = (
    "You need `make setup` in a clone, there `export CLONE=$PWD PATH=$PWD/.venv/bin:$PATH`, then an empty folder, and "
    "there `export STABLE_ARENA_DATA_DIR=$PWD/data`."
)
EVERY = pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)


@pytest.fixture
def reader(
    request: pytest.FixtureRequest, tmp_path: Path, client: Client, on_database: None, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """A reader on the test's database, with Node in the tests of generated clients."""
    assert client.base_url.port is not None
    node = request.node.get_closest_marker("generators") is not None
    reader = Reader(tmp_path, client.base_url.port, in_process=True, node=node)
    monkeypatch.chdir(reader.folder)
    return reader


@EVERY
def test_every_command_prints_what_the_tutorial_shows(tutorial: Path, reader: Reader) -> None:
    reader.follow(tutorial.read_text(encoding="utf-8"), DEEDS)
    assert reader.commands


@EVERY
def test_it_says_how_long_it_takes_and_begins_in_an_empty_folder(tutorial: Path) -> None:
    introduction = " ".join(tutorial.read_text(encoding="utf-8").split("\n## ")[0].split())
    assert re.search(r"takes (ten|fifteen|twenty|sixty) minutes\. You need", introduction)
    assert BEGINNING in introduction


@pytest.mark.campaign
@EVERY
def test_in_processes_with_a_database_of_its_own(
    tutorial: Path, tmp_path: Path, data_dir: Path, configure: Configure
) -> None:
    configure(DATABASE_URL=None, DATA_DIR=data_dir)
    with Reader(tmp_path, free_port()) as reader:
        reader.follow(tutorial.read_text(encoding="utf-8"), DEEDS)


def section(title: str) -> str:
    """Return a section of the README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_readme_rates_a_file(reader: Reader) -> None:
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")
    shutil.copy(Path(folder) / "llmfao.csv", reader.folder)
    reader.follow(section("Rate a file"))
    assert reader.commands == 1


def test_the_readme_runs_the_service(reader: Reader) -> None:
    reader.follow(section("Run the service"))
    assert reader.commands == 4


@pytest.mark.generators
@pytest.mark.parametrize("name", ["connect-your-arena", "vote-on-your-answers"])
def test_with_what_needs_node_too(name: str, reader: Reader) -> None:
    reader.follow((ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8"), DEEDS)
