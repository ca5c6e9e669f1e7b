import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, publish, table, word
from stable_arena_lab.judging.figures import measure_rows
from stable_arena_lab.judging.rows import ROWS
from stable_arena_lab.judging.targets import BEYOND, GAINED, WRONGED
from stable_arena_lab.judging.versions import BEFORE, EXCLUDED, NOW, VERSIONS


def judging(
    row: Annotated[
        list[str] | None, typer.Option(help="Only this row of the table; repeat it.", show_default=", ".join(ROWS))
    ] = None,
    before: Annotated[
        bool, typer.Option(help="Also am-ELO without a limit of influence, judged by the tests and by plain abilities.")
    ] = True,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds to draw for each case.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Measure how annotators are judged, before and now: attackers who gain, honest ones who are wronged, and fits."""
    check_figure(figure)
    started, wanted = time.perf_counter(), list(dict.fromkeys(row or ROWS))
    if unknown := [name for name in wanted if name not in ROWS]:
        raise BadInputError(f"--row must be one of {', '.join(ROWS)}, is {unknown[0]}")
    versions = {name: settings for name, settings in VERSIONS.items() if before or name != BEFORE}
    with showing_stages() as stages:
        stages.stage("judging")
        figures = measure_rows(
            {name: ROWS[name] for name in wanted}, versions, seeds=range(seed, seed + repeats), processes=processes,
            progress=stages.share,
        )  # fmt: skip
    rows: list[Row] = [asdict(each) for each in figures]
    report = Report(
        experiment="judging",
        settings={"rows": wanted, "versions": list(versions), "repeats": repeats, "seed": seed},
        results={"figures": rows},
        tables=[_table(rows, list(versions), f"{repeats} crowds for each case, seeds from {seed}")],
        notes=[
            "Mean ± its standard error. 42 annotators, 200 votes each, score sd 140, unless the case says more.",
            "Before: no limit of influence; a test or a plain ability at or below ε marks. Now: the defaults, flagged",
            "annotators stay in. Now, excluded: annotators that the rule excludes are left out.",
            "In brackets: ranks beyond what the same votes gain under Bradley-Terry. Target: the largest mean aimed",
            "at; with a +, of the ranks in brackets.",
        ],
        chart=_chart(rows, list(versions)),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _table(rows: Rows, versions: list[str], title: str) -> Table:
    """Return one line for each row, case and measure, one column for each version.

    Ranks gained beyond Bradley-Terry are in brackets, on the line of the ranks gained.
    """
    lines: dict[tuple[str, str, str], dict[str, object]] = {}
    for row in rows:
        line = lines.setdefault(_line_of(row), {**row, **dict.fromkeys(versions, "–"), "target": _target(rows, row)})
        if row["mean"] is None:
            continue
        if row["measure"] == BEYOND:
            line[row["version"]] = f"{line[row['version']]} ({row['mean']:+.2f} ± {row['se'] or 0.0:.2f})"
        else:
            digits = 1 if row["measure"].endswith("%") else 2
            line[row["version"]] = f"{row['mean']:.{digits}f} ± {row['se'] or 0.0:.{digits}f}"
    return table(
        f"How annotators are judged · {title}",
        list(lines.values()),
        {
            "Row": word("row"), "Case": word("case"), "Measure": word("measure"),
            **{version: word(version) for version in versions}, "Target": word("target"),
        },
        text=["Row", "Case", "Measure", "Target"],
    )  # fmt: skip


def _line_of(row: Row) -> tuple[str, str, str]:
    return row["row"], row["case"], GAINED if row["measure"] == BEYOND else row["measure"]


def _target(rows: Rows, row: Row) -> str:
    """Return the target of the line of a row, and that of leaderboards with exclusion where it is another."""
    aims = {
        each["version"]: f"≤ {'+' if each['measure'] == BEYOND else ''}{each['target']:g}" for each in rows
        if each["target"] is not None and _line_of(each) == _line_of(row)
    }  # fmt: skip
    now, excluded = aims.get(NOW, "–"), aims.get(EXCLUDED)
    return now if excluded in (None, now) else f"{now}, excluded {excluded}"


def _chart(rows: Rows, versions: list[str]) -> Spec:
    labelled: list[Row] = [{**row, "label": f"{row['row']}, {row['case']}"} for row in rows]
    return side_by_side(
        *(
            panel(
                mine, measure, layer("point", filled=True, size=40), x=axis("mean", measure, zero=True),
                y=category("label", None, list(dict.fromkeys(row["label"] for row in mine))),
                color=colours("version", "version", versions),
            )
            for measure in (GAINED, WRONGED)
            if (mine := [row for row in labelled if row["measure"] == measure])
        )
    )  # fmt: skip
