import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from app.rating.units import ELO_PER_NATURAL
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.attacks.honest import Variety
from stable_arena_lab.attacks.strategies import STRATEGIES
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, publish, table, word
from stable_arena_lab.defences.campaign import campaign
from stable_arena_lab.defences.review_trial import RULES
from stable_arena_lab.defences.trial import NO_ATTACK

CHARTED = ("m-elo", "am-elo plain", "flagged stay", "flagged removed")


def attacks(
    strategy: Annotated[
        list[str] | None, typer.Option(help="Only this strategy; repeat it for several. none is no attack.")
    ] = None,
    annotators: Annotated[int, typer.Option(min=2, help="Annotators, including attackers.")] = 42,
    votes_each: Annotated[int, typer.Option(min=1, help="Votes of every annotator.")] = 51,
    attack_votes: Annotated[
        int | None, typer.Option(min=1, help="Votes of every attacker; by default as many.")
    ] = None,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of annotators who attack.")] = 0.1,
    target: Annotated[int, typer.Option(min=0, help="Place of the target, counted from the last, which is 0.")] = 1,
    minority: Annotated[
        float, typer.Option(min=0, max=1, help="Share of honest annotators with an own opinion of one model.")
    ] = 0.0,
    opinion: Annotated[float, typer.Option(help="By how many Elo points they find it better.")] = 200.0,
    tie_spread: Annotated[
        float, typer.Option(min=0, help="How much honest annotators differ in ties (sd of logs).")
    ] = 0.0,
    side_spread: Annotated[float, typer.Option(min=0, help="How much they prefer a side (sd, Elo points).")] = 0.0,
    boards: Annotated[bool, typer.Option(help="Compute leaderboards too, not only the rules.")] = True,
    rule: Annotated[
        list[str] | None, typer.Option(help="Only this rule, named as in the table; repeat it for several.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Arenas to draw.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Attack simulated arenas: how far each leaderboard moves, which annotators each rule flags, and how rightly."""
    check_figure(figure)
    chosen = tuple(strategy or (NO_ATTACK, *STRATEGIES))
    for name in chosen:
        if name not in (NO_ATTACK, *STRATEGIES):
            raise BadInputError(f"--strategy must be one of {', '.join((NO_ATTACK, *STRATEGIES))}, is {name}")
    rules = tuple(rule or RULES)
    for name in rules:
        if name not in RULES:
            raise BadInputError(f"--rule must be one of {', '.join(RULES)}, is {name}")
    started = time.perf_counter()
    setup = Setup(
        n_annotators=annotators, votes_each=votes_each, share=share, attack_votes=attack_votes, target=target,
        variety=Variety(tie_spread, side_spread / ELO_PER_NATURAL, minority, opinion),
    )  # fmt: skip
    if target >= setup.n_models:
        raise BadInputError(f"--target must be less than {setup.n_models}, is {target}")
    with showing_stages() as stages:
        stages.stage("attacking")
        by_board, by_rule = campaign(
            setup, seeds=range(seed, seed + repeats), strategies=chosen, boards=boards, rules=rules,
            processes=processes, progress=stages.share,
        )  # fmt: skip
    board_rows, rule_rows = [asdict(row) for row in by_board], [asdict(row) for row in by_rule]
    title = f"{annotators:,} annotators, {votes_each} votes each, {100 * share:g} % attackers, {repeats} arenas"
    report = Report(
        experiment="attacks",
        settings={**asdict(setup), "repeats": repeats, "seed": seed},
        results={"boards": board_rows, "rules": rule_rows},
        tables=_tables(board_rows, rule_rows, title),
        notes=[
            "Gains relative to the same leaderboard of the honest votes: ranks (mean ± sd), Elo points.",
            "Found: share of the attackers that are flagged. Wronged: share of the honest annotators that are flagged.",
        ],
        chart=_chart(board_rows, rule_rows),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _tables(boards: Rows, rules: Rows, title: str) -> list[Table]:
    tables = []
    if boards:
        names = list(dict.fromkeys(row["board"] for row in boards))
        tables.append(_pivot(f"Ranks (points) gained by the target · {title}", boards, "board", names, _gain))
    names = list(dict.fromkeys(row["rule"] for row in rules))
    tables.append(_pivot(f"Found / wronged, % · {title}", rules, "rule", names, _shares))
    return tables


def _pivot(title: str, rows: Rows, key: str, names: list[str], cell: Callable[[Row], str]) -> Table:
    """Return one line for each board or rule, one column for each strategy."""
    strategies = list(dict.fromkeys(row["strategy"] for row in rows))
    at = {(row[key], row["strategy"]): cell(row) for row in rows}
    lines: list[Row] = [{key: name, **{s: at.get((name, s), "–") for s in strategies}} for name in names]
    return table(
        title, lines, {key.capitalize(): word(key), **{s: word(s) for s in strategies}}, text=[key.capitalize()]
    )


def _gain(row: Row) -> str:
    if row["ranks"] is None:
        return "–"
    spread = f"±{row['ranks_sd']:.1f}" if row["ranks_sd"] is not None else ""
    return f"{row['ranks']:+.1f}{spread} ({row['points']:+.0f})"


def _shares(row: Row) -> str:
    found = "" if row["found"] is None else f"{100 * row['found']:.0f}"
    return f"{found}/{100 * row['wronged']:.1f}"


def _chart(boards: Rows, rules: Rows) -> Spec:
    panels = []
    if boards:
        shown = [row for row in boards if row["board"] in CHARTED]
        strategies = list(dict.fromkeys(row["strategy"] for row in shown))
        panels.append(
            panel(
                shown, "Ranks gained by the target", layer("point", filled=True, size=40),
                x=axis("ranks", "ranks", zero=True), y=category("strategy", None, strategies),
                color=colours("board", "board", CHARTED),
            )
        )  # fmt: skip
    last = [row for row in rules if row["rule"] in ("ε", "the service's", "Chatbot Arena, α .1")]
    found = [row for row in last if row["found"] is not None]
    strategies = list(dict.fromkeys(row["strategy"] for row in found))
    panels.append(
        panel(
            found, "Attackers found", layer("point", filled=True, size=40),
            x=axis("found", "share", domain=[0, 1]), y=category("strategy", None, strategies),
            color=colours("rule", "rule", list(dict.fromkeys(row["rule"] for row in found))),
        )
    )  # fmt: skip
    return side_by_side(*panels)
