"""The documents name what the code has, and are written plainly."""

import re
import runpy
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from typer.core import TyperGroup

from app.cli.command import COMMANDS, LazyGroup, load_command
from app.webhooks.schemas import EVENTS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")
CODE = [path for folder in ("app", "migrations") for path in sorted((ROOT / folder).rglob("*.py"))]
PYTHON_FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("app", "benchmarks", "clients", "docs", "examples", "lab", "migrations", "tests")
    for path in (ROOT / folder).rglob("*.py")
]
MOST_WORDS, MOST_WORDS_OF_README = 30_000, 600
ODD_WORDS = re.compile(r"(?<![\"`])\b(nobody|whoever|whom|lest)\b", re.IGNORECASE)  # `nobody` is a user of Unix


def anchors(page: Path) -> set[str]:
    """What a link may name after the #: headings, as GitHub and the site spell them, and ids."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings} | set(
        re.findall(r'<a id="([^"]+)"', text)
    )


def first_cells(heading: str) -> set[str]:
    """Names in backquotes in the first cells of the table below a heading of the reference."""
    section = REFERENCE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_generated_lists_are_those_of_the_code() -> None:
    generate: Any = runpy.run_path(str(DOCS / "generate.py"))["generate"]
    assert generate(REFERENCE) == REFERENCE, "run make docs"


def test_every_endpoint_is_documented(usual_app: FastAPI) -> None:
    paths = usual_app.openapi()["paths"]
    actual = {f"{verb.upper()} {path.removeprefix('/api/v1')}" for path, verbs in paths.items() for verb in verbs}
    assert first_cells("Endpoints") == actual


def test_every_event_is_documented() -> None:
    assert first_cells("Webhooks") == set(EVENTS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_make_targets_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", text):
        linked = document.parent / target if target else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_plain_and_fits_the_line(document: Path) -> None:
    code = False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        code ^= line.startswith("```")
        assert code or line.startswith("|") or len(line) <= 120, f"line {number} is too long"
        assert not ODD_WORDS.search(line), f"line {number}: {line}"


def test_code_is_written_plainly() -> None:
    odd = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in CODE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ODD_WORDS.search(line)
    ]
    assert not odd, "\n".join(odd)


def test_the_numbers_that_were_chosen_are_those_of_the_code() -> None:
    section = (DOCS / "math.md").read_text(encoding="utf-8").split("## Numbers that were chosen\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d.]+) \| `([a-z_.]+)\.([A-Z_]+)` \|", section, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| \d", section, re.MULTILINE)) > 0
    for value, module, name in rows:
        assert float(value) == getattr(import_module(f"app.rating.{module}"), name), name


def test_pages_that_have_a_limit_keep_it() -> None:
    words = {document: len(document.read_text(encoding="utf-8").split()) for document in DOCUMENTS}
    assert words[ROOT / "README.md"] <= MOST_WORDS_OF_README
    assert sum(words.values()) <= MOST_WORDS
    assert len(ARCHITECTURE.splitlines()) <= 150


def _command_lines() -> set[str]:
    shown = set()
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        shown |= set(re.findall(r"^\$ stable-arena ([^\n#]+)", text, re.MULTILINE))
        shown |= set(re.findall(r"`stable-arena ([a-z][^`]*)`", text))
    return {" ".join(line.split()) for line in shown}


@pytest.mark.parametrize("line", sorted(_command_lines()))
def test_a_command_line_of_the_documents_exists(line: str) -> None:
    words = [word for word in shlex.split(line.rstrip("\\")) if word != "…"]
    command = load_command(words[0], COMMANDS[words[0]])
    for word in words[1:]:
        if not isinstance(command, TyperGroup) or word.startswith("-"):
            break
        listed = command.table.get(word) if isinstance(command, LazyGroup) else None
        command = load_command(word, listed) if listed else command.commands[word]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known, line


def test_the_map_shows_every_room_and_nothing_else() -> None:
    """The map is the first code block of the page: a line for each folder of the application."""
    drawn = ARCHITECTURE.split("```")[1]
    shown: set[str] = set()
    for line in drawn.splitlines():
        if found := re.match(r"  ((?:[a-z_]+/ ?)+) ", line):
            shown |= {name.rstrip("/") for name in found[1].split()}
    rooms = {path.parent.name for path in (ROOT / "app").glob("*/__init__.py")}
    assert shown == rooms


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document: Path) -> None:
    """A Python file may be named by the end of its path: `votes/queries.py`. A tutorial's reader writes some."""
    text = document.read_text(encoding="utf-8")
    written = set(re.findall(r'title="([^"]+)"', text))
    for name in re.findall(r"[`=]((?:app|benchmarks|clients|docs|examples|lab|migrations|tests)/[\w/.]+)", text):
        assert (ROOT / name).exists(), name
    for name in set(re.findall(r"[\w/]+\.py\b", text)) - written:
        assert any(f"/{path}".endswith(f"/{name}") for path in PYTHON_FILES), name
