"""Results as tables for a terminal: rows by the names of their fields, leaderboards, annotators."""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from app.cli.failures import one_line

Rows = Sequence[Mapping[str, Any]]

WIDE = 4_000
"""Columns of text that goes to a file or a pipe: nothing is cut."""

AS_GOOD_AS_TIED = "≈"


def leaderboard_table(models: Rows) -> RenderableType:
    """Return the models as one table for each component of the comparison graph."""
    components: dict[int, list[Mapping[str, Any]]] = {}
    for row in models:
        components.setdefault(row["component"], []).append(row)
    tables = []
    for number, rows in components.items():
        title = f"Component {number + 1} of {len(components)}" if len(components) > 1 else None
        tables.append(
            table_of(rows, *_PLACE, "Model=model", _SCORE, _HALF_WIDTH, *_VOTES, title=title, figures=_FIGURES)
        )
    return Group(*tables)


def elo_table(models: Rows) -> RenderableType:
    """Return the models as rated by Elo over shuffled orders."""
    columns = ("Mean=score:.1f", "SEM=sem:.2f", "SD=sd:.1f", "As recorded=recorded:.1f")
    return table_of(models, "Rank=rank", "Model=model", *columns, *_VOTES)


def annotators_table(annotators: Rows) -> RenderableType:
    """Return the annotators with their abilities."""
    paper = ["Σ = 1=paper_ability:.5f"] if any(row.get("paper_ability") is not None for row in annotators) else []
    return table_of(
        annotators, "Annotator=annotator", "Ability=ability:.3f", *paper, "SE=se:.3f", "Slope=adjusted_ability:.3f",
        "P(low)=probability_low:.3f", "Ties=tie_readiness:.2f", "Lean=side_lean:.0f", "Votes=votes",
        "Standing=standing", "Reason=reason", title="Annotators",
    )  # fmt: skip


def style_tables(style: Mapping[str, Any], without: Rows) -> list[RenderableType]:
    """Return the leaderboard with style control, beside the scores without it, and what the features are worth."""
    before = {row["model"]: row for row in without}

    def change(row: Mapping[str, Any]) -> str:
        plain = before[row["model"]]["score"]
        return shown(None if row["score"] is None or plain is None else row["score"] - plain, "+.1f")

    beside = [("Without", lambda row: _score(before[row["model"]])), ("Change", change)]
    return [
        table_of(style["models"], *_PLACE, "Model=model", _SCORE, _HALF_WIDTH, *beside, title="With style control",
                 figures=[*_FIGURES, "Without", "Change"]),
        "",
        table_of(style["features"], "Feature=feature", "Points=points:+.1f", _HALF_WIDTH,
                 "Spread=spread:.1f", title="What one standard deviation is worth", figures="±"),
    ]  # fmt: skip


def category_tables(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Return the scores by category; a mark says that a score differs from that of all votes beyond its error."""
    tags = list(found["votes"])
    columns = [(tag, lambda row, tag=tag: _in_category(row["categories"].get(tag))) for tag in tags]
    spread = found["spread"]
    yield table_of(found["models"], "Model=model", "All=score:.1f", *columns, title=f"By {found['by']}", figures=tags)
    if spread is None:
        yield "* differs from the leaderboard beyond its error; each criterion has its own votes"
    else:
        yield f"* differs from all votes beyond its error; scores vary by {spread:.1f} points between categories"
        yield "Where a category has few votes, its scores are drawn to those of all votes."
    if "weighted" in found:
        yield ""
        yield "Weighted"
        yield leaderboard_table(found["weighted"])
    if "portfolio" in found:
        yield ""
        yield from _portfolio(found["portfolio"])


def _portfolio(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Return which few models serve every category, or that the categories do not differ."""
    held = found["held_out"]
    gain = f"held-out log-loss falls by {held['gain']:.4f} ± {held['half']:.4f} a vote"
    if not found["differ"]:
        yield f"Categories do not differ beyond error: by their own scores {gain}; the leaderboard serves them all"
        return
    yield f"Within {found['margin']:g} points of the best in each category; by its own scores {gain}"
    rows = [{"category": tag, **one} for tag, one in found["serves"].items()]
    yield table_of(rows, "Category=category", "Model=model", "Behind=behind:.1f", "At most=at_most:.1f")
    if any(one["model"] is None for one in rows):
        yield "Where no model stands, the votes do not show one that is so near"


def _in_category(cell: Mapping[str, Any] | None) -> str:
    if cell is None or cell["lower"] is None or cell["score"] is None:
        return shown(cell and cell["score"], ".1f")
    return f"{'* ' * cell['stands_out']}{cell['score']:.1f} ± {_half(cell)}"


def render(parts: Iterable[RenderableType], *, terminal: bool = False) -> str:
    """Return the parts as text: as wide as the terminal, or uncut and plain without one.

    A string is shown as it is: rich's markup and emoji codes are off, because names and reasons come from strangers.
    """
    plain: dict[str, Any] = {"file": io.StringIO(), "width": WIDE, "color_system": None, "legacy_windows": False}
    console = Console(markup=False, emoji=False, highlight=False, **({} if terminal else plain))
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


Column = str | tuple[str, Callable[[Any], object]]


def table_of(rows: Iterable[Any], *columns: Column, title: str | None = None, figures: Collection[str] = ()) -> Table:
    """Return rows as a table.

    Parameters
    ----------
    rows : response models, or mappings
    columns : "Heading=field", "Heading=field.of_it" or "Heading=field:.1f", with the format of a number that may be
        missing; or the heading and a function of a row. By default times are shown to the minute, numbers with commas
        between thousands, lists with commas between their items, and texts on one line
    figures : headings of columns that hold numbers though a function makes them
    """
    read = [_reader(column) for column in columns]
    right = {heading for heading, _, spec in read if spec} | set(figures)
    cells = [[value(row) for _, value, _ in read] for row in rows]
    for place, (heading, _, _) in enumerate(read):
        if any(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in cells):
            right.add(heading)
    texts = [[shown(cell, spec) for cell, (_, _, spec) in zip(row, read, strict=True)] for row in cells]
    headings = [heading for heading, _, _ in read]
    return make_table(*headings, rows=texts, words=[one for one in headings if one not in right], title=title)


def _reader(column: Column) -> tuple[str, Callable[[Any], Any], str]:
    if not isinstance(column, str):
        return (*column, "")
    heading, _, rest = column.rpartition("=")
    field, _, spec = rest.partition(":")
    return heading, lambda row: row.get(field) if isinstance(row, Mapping) else attrgetter(field)(row), spec


def shown(value: object, spec: str = "") -> str:
    """Return a value as a cell of a table; a number that is missing is –, anything else that is missing is blank."""
    if spec and value is None:
        return "–"
    if spec and isinstance(value, int | float):
        return f"{100 * value:.1f} %" if spec == "%" else format(value, spec.replace(".", "z.", 1))  # z: no -0.0
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return one_line("" if value is None else ", ".join(value) if isinstance(value, list | tuple) else str(value))


def make_table(
    *columns: str,
    rows: Iterable[Sequence[RenderableType | None]] = (),
    words: Collection[str] | None = None,
    title: str | None = None,
) -> Table:
    """Return a table; the columns in `words`, by default all, hold words and the others hold numbers.

    Words start at the left and may be broken into lines; numbers end at the right and stay whole.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_words = words is None or column in words
        table.add_column(column, justify="left" if is_words else "right", no_wrap=not is_words, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _rank(row: Mapping[str, Any]) -> str:
    """Show the rank; a mark says that a few votes decide the order with the model above."""
    if row["rank"] is None:
        return "–"  # provisional
    return f"{AS_GOOD_AS_TIED if row.get('tied') else ''}{row['rank']}"


def _score(row: Mapping[str, Any]) -> str:
    """Show the score, or its bound where the data bound one side only."""
    if row["identified"]:
        return shown(row["score"], ".1f")
    if row["lower"] is not None:
        return f"≥ {row['lower']:.1f}"
    return f"≤ {row['upper']:.1f}" if row["upper"] is not None else "?"


def _half(row: Mapping[str, Any]) -> str:
    ends = row["lower"], row["upper"]
    return "–" if None in ends or not row.get("identified", True) else f"{(ends[1] - ends[0]) / 2:.1f}"


_PLACE = ("Rank", _rank), "Class=class_rank:d"
_SCORE, _HALF_WIDTH = ("Score", _score), ("±", _half)
_FIGURES = ("Rank", "Score", "±")
_VOTES = ("Votes=votes", "Wins=wins", "Ties=ties", "Losses=losses")
