"""The documents name what the code has: settings, commands, endpoints, problems, make targets, files."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

from app.cli.command import COMMANDS
from app.errors import StableArenaError
from app.main import create_app
from app.settings import Settings

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """First cell, without its backquotes, to the other cells of the table below a heading of the reference."""
    section = REFERENCE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {first.strip(" `"): [cell.strip() for cell in rest] for first, *rest in cells}


def settings_of(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_of(kind, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", str(field.default).lower()


def subclasses(kind: type[StableArenaError]) -> Iterator[type[StableArenaError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def test_every_setting_is_documented_with_its_default() -> None:
    documented = rows("Settings")
    actual = dict(settings_of(Settings, "STABLE_ARENA_"))
    assert set(documented) == set(actual)
    for name, (default, _) in documented.items():
        if default.startswith("`"):
            assert default.strip("`") == actual[name], name


def test_every_command_is_documented() -> None:
    assert set(rows("Commands")) == set(COMMANDS)


def test_every_endpoint_is_documented() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    actual = {f"{verb.upper()} {path.removeprefix('/api/v1')}" for path, verbs in paths.items() for verb in verbs}
    assert set(rows("Endpoints")) == actual


def test_every_problem_is_documented() -> None:
    for listed in COMMANDS.values():
        import_module(listed.place.partition(":")[0])  # commands have errors of their own
    ours = {kind.code: kind.title for kind in subclasses(StableArenaError) if kind.__module__.startswith("app.")}
    assert {code: title for code, (_, title) in rows("Problems").items()} == ours


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_make_targets_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (document.parent / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name
