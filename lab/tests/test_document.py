"""The laboratory's pages name commands, options and figures that exist."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import Result

from stable_arena_lab.commands import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("laboratory.md", "laboratory-attacks.md"))
COMMANDS = sorted(set(re.findall(r"`stable-arena lab ([^`]+)`", PAGE)))


def test_every_experiment_is_shown_by_a_command() -> None:
    assert {shlex.split(command)[0] for command in COMMANDS} == set(EXPERIMENTS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_named_command_exists_with_its_options(run_lab: Callable[..., Result], command: str) -> None:
    name, *words = shlex.split(command)
    assert name in EXPERIMENTS
    known = run_lab(name, "--help").stdout
    for option in (word for word in words if word.startswith("--")):
        assert option in known, option


def test_every_figure_is_shown_made_by_a_command_and_well_formed() -> None:
    shown = set(re.findall(r"\]\(figures/([^)]+\.svg)\)", PAGE))
    made = {word.removeprefix("docs/figures/") for c in COMMANDS for word in shlex.split(c) if word.endswith(".svg")}
    assert shown == made
    for name in shown:
        root = ET.parse(DOCS / "figures" / name).getroot()  # noqa: S314  the project's own files
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
