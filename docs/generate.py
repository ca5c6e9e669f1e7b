"""Writes the lists of reference.md, the results in notebook.md and the models of clients/python: `make docs`.

Tests find them out of date.
"""

import ast
import io
import re
import runpy
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from pydantic import BaseModel

from app.cli.command import COMMANDS, load_command
from app.errors import StableArenaError
from app.guard.refusals import STATUS
from app.main import create_app
from app.policy.service import Policy
from app.settings import PREFIX, Settings

REFERENCE = Path(__file__).with_name("reference.md")
NOTEBOOK = Path(__file__).with_name("notebook.md")
CLIENT = Path(__file__).parent.parent / "clients" / "python" / "generate.py"
NEW_WORDS = 3  # of a problem's title, from which the page has it beside the code
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?P<result>\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)


def commands() -> str:
    """Return the list of commands."""
    return _list((f"`{name}`", listed.line) for name, listed in COMMANDS.items())


def settings() -> str:
    """Return the list of settings, each with its default and description."""
    return _list(_settings_of(Settings, PREFIX))


def policy() -> str:
    """Return the list of the policy's settings."""
    return _list(
        (_named(name, field.get_default(call_default_factory=True)), field.description or "")
        for name, field in Policy.model_fields.items()
    )


def problems() -> str:
    """Return a list of the problem types for each HTTP status, with the titles that say more than the code."""
    create_app(Settings())
    for name, listed in COMMANDS.items():
        load_command(name, listed)  # commands have errors of their own
    kinds = {kind.code: kind for kind in _subclasses(StableArenaError) if kind.__module__.startswith("app.")}
    lists: dict[int, list[tuple[str, str]]] = {}
    for code, kind in sorted(kinds.items()):
        status = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
        lists.setdefault(status, []).append((f"`{code}`", kind.title if _says_more(code, kind.title) else ""))
    return "\n".join(_problems_of(status, lists[status]) for status in sorted(lists))


LISTS = {"commands": commands, "settings": settings, "policy": policy, "problems": problems}


def generate(text: str) -> str:
    """Return the page with every generated list made anew."""
    for name, make in LISTS.items():
        between = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = between.subn(lambda found, made=make: f"{found[1]}\n{made()}\n{found[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"the page has no place for {name}")
    return text


def _settings_of(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings_of(kind, f"{prefix}{name.upper()}__")
        else:
            default = None if field.default_factory else field.default
            yield _named(f"{prefix}{name.upper()}", default), field.description or ""


def _says_more(code: str, title: str) -> bool:
    """Whether a title has `NEW_WORDS` words of four letters or more that its code does not have."""
    return len({word.lower().rstrip("s") for word in re.findall(r"\w{4,}", title)} - set(code.split("-"))) >= NEW_WORDS


def _problems_of(status: int, listed: list[tuple[str, str]]) -> str:
    plain = textwrap.fill(", ".join(code for code, title in listed if not title), 120, break_on_hyphens=False)
    titled = "\n".join(f"- {code}: {title}" for code, title in listed if title)
    return "".join(f"{part}\n\n" for part in (f"**{status}**", plain, titled) if part).removesuffix("\n")


def _named(name: str, default: object) -> str:
    """Return a setting's name with its default behind it, if it has one."""
    if default is None or default in ((), {}):
        return f"`{name}`"
    several = default if isinstance(default, tuple) else (default,)
    shown = ", ".join(f"`{str(one).lower() if isinstance(one, bool) else one}`" for one in several)
    return f"`{name}` ({shown})"


def _subclasses(kind: type[StableArenaError]) -> Iterator[type[StableArenaError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _subclasses(each)


def _list(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and what they mean, in lines of 120 characters."""
    return "".join(
        textwrap.fill(
            f"- {name}: {meaning}", 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
        + "\n"
        for name, meaning in rows
    )


def execute(text: str, after_block: Callable[[dict[str, Any]], None] = lambda _: None) -> str:
    """Return the page with its Python blocks executed, one after the other, and their results in the text blocks below.

    Parameters
    ----------
    after_block : called after each block with the names that the blocks share
    """
    names: dict[str, Any] = {}

    def run_block(found: re.Match[str]) -> str:
        result = _run(found["code"], names)
        after_block(names)
        return f"```python\n{found['code']}```\n" + (f"\n```text\n{result}```\n" if found["result"] else "")

    with (
        TemporaryDirectory() as folder,
        chdir(folder),
        pl.Config(
            tbl_width_chars=110,
            tbl_formatting="NOTHING",
            tbl_hide_column_data_types=True,
            tbl_hide_dataframe_shape=True,
        ),
    ):
        return BLOCK.sub(run_block, text)


def _run(code: str, names: dict[str, Any]) -> str:
    """Run a block; return what it prints, and the value of its last line if that is an expression."""
    block = ast.parse(code)
    last = block.body.pop() if isinstance(block.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(block, "page", "exec"), names)  # noqa: S102  our own page
        value = None if last is None else eval(compile(ast.Expression(last.value), "page", "eval"), names)  # noqa: S307
    text = printed.getvalue() + ("" if value is None else f"{value!r}\n")
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    REFERENCE.write_text(generate(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
    NOTEBOOK.write_text(execute(NOTEBOOK.read_text(encoding="utf-8")), encoding="utf-8")
    runpy.run_path(str(CLIENT))["main"]()
