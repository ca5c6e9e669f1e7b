"""Leaderboards and annotators as tables for a terminal."""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

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
        table = make_table(
            "Rank", "Model", "Score", "±", "Votes", "Wins", "Ties", "Losses", words=["Model"], title=title
        )
        for row in rows:
            table.add_row(
                _rank(row), row["model"], _score(row), _half_width(row),
                *(f"{row[key]:,}" for key in ("votes", "wins", "ties", "losses")),
            )  # fmt: skip
        tables.append(table)
    return Group(*tables)


def elo_table(models: Rows) -> RenderableType:
    """Return the models as rated by Elo over shuffled orders."""
    columns = ("Rank", "Model", "Mean", "SEM", "SD", "As recorded", "Votes", "Wins", "Ties", "Losses")
    table = make_table(*columns, words=["Model"])
    for row in models:
        table.add_row(
            f"{row['rank']}", row["model"], f"{row['score']:.1f}", f"{row['sem']:.2f}", f"{row['sd']:.1f}",
            f"{row['recorded']:.1f}", *(f"{row[key]:,}" for key in ("votes", "wins", "ties", "losses")),
        )  # fmt: skip
    return table


def annotators_table(annotators: Rows) -> RenderableType:
    """Return the annotators with their abilities."""
    paper = ["Σ = 1"] if any(row.get("paper_ability") is not None for row in annotators) else []
    columns = ("Ability", *paper, "SE", "Adjusted", "P(low)", "Ties", "Lean", "Votes", "Standing", "Reason")
    table = make_table("Annotator", *columns, words=["Annotator", "Standing", "Reason"], title="Annotators")
    for row in annotators:
        table.add_row(
            row["annotator"], number(row["ability"], 3),
            *(number(row["paper_ability"], 5) for _ in paper), number(row["se"], 3),
            number(row.get("adjusted_ability"), 3), number(row.get("probability_low"), 3),
            number(row.get("tie_readiness"), 2), number(row.get("side_lean"), 0),
            f"{row['votes']:,}", row["standing"], row["reason"] or "",
        )  # fmt: skip
    return table


def style_tables(style: Mapping[str, Any], without: Rows) -> list[RenderableType]:
    """Return the leaderboard with style control, beside the scores without it, and what the features are worth."""
    before = {row["model"]: row for row in without}
    table = make_table("Rank", "Model", "Score", "±", "Without", "Change", words=["Model"], title="With style control")
    for row in style["models"]:
        plain = before[row["model"]]
        both = row["score"] is not None and plain["score"] is not None
        change = f"{row['score'] - plain['score']:+.1f}" if both else "–"
        table.add_row(_rank(row), row["model"], _score(row), _half_width(row), _score(plain), change)
    worth = make_table(
        "Feature", "Points", "±", "Spread", words=["Feature"], title="What one standard deviation is worth"
    )
    for row in style["features"]:
        half = None if row["lower"] is None else (row["upper"] - row["lower"]) / 2
        worth.add_row(row["feature"], f"{row['points']:+.1f}", number(half, 1), number(row["spread"], 1))
    return [table, "", worth]


def category_tables(found: Mapping[str, Any]) -> list[RenderableType]:
    """Return the scores by category; a mark says that a score differs from that of all votes beyond its error."""
    tags = list(found["votes"])
    table = make_table("Model", "All", *tags, words=["Model"], title=f"By {found['by']}")
    for row in found["models"]:
        cells = (row["categories"].get(tag) for tag in tags)
        table.add_row(
            row["model"], number(row["score"], 1), *("–" if one is None else _in_category(one) for one in cells)
        )
    return [
        table,
        f"* differs from all votes beyond its error; scores vary by {found['spread']:.1f} points between categories",
        "Where a category has few votes, its scores are drawn to those of all votes.",
    ]


def _in_category(cell: Mapping[str, Any]) -> str:
    if cell["lower"] is None or cell["score"] is None:
        return number(cell["score"], 1)
    return f"{'* ' * cell['stands_out']}{cell['score']:.1f} ± {(cell['upper'] - cell['lower']) / 2:.1f}"


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
    """Show the rank and its spread; a mark says that a few votes decide the order with the model above."""
    if row["rank"] is None:
        return "–"  # provisional
    best, worst = row["best_rank"], row["worst_rank"]
    mark = AS_GOOD_AS_TIED if row.get("tied") else ""
    certain = best is None or best == worst == row["rank"]
    return f"{mark}{row['rank']}" if certain else f"{mark}{row['rank']} ({best}–{worst})"


def _score(row: Mapping[str, Any]) -> str:
    """Show the score, or its bound where the data bound one side only."""
    if row["identified"]:
        return number(row["score"], 1)
    if row["lower"] is not None:
        return f"≥ {row['lower']:.1f}"
    return f"≤ {row['upper']:.1f}" if row["upper"] is not None else "?"


def _half_width(row: Mapping[str, Any]) -> str:
    if not row["identified"] or row["lower"] is None or row["upper"] is None:
        return "–"
    return f"{(row['upper'] - row['lower']) / 2:.1f}"


def number(value: float | None, digits: int) -> str:
    """Return the number with so many digits after the point, – for none."""
    return "–" if value is None else f"{value:z.{digits}f}"
