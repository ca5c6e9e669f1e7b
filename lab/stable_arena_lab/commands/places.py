import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from app.rating.settings import LoopSettings
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.attacks.strategies import STRATEGIES
from stable_arena_lab.attacks.tuned import TUNED
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, publish, table, word
from stable_arena_lab.defences.gains import BOARDS, PLAIN, boards_with, measure

PLACES = (1, 5, 10, 15, 18)
LEADERS, FIFTH = 6, 5
DEFAULT_LIMIT = LoopSettings.influence_limit or math.inf
ATTACKS = ("target-only", "mimic", "careful-mimic", "omnipresent", *TUNED)

TargetOption = Annotated[
    list[int] | None,
    typer.Option(
        help="Place of the target, counted from the last, which is 0; repeat it.", show_default="1, 5, 10, 15, 18"
    ),
]
LeadersOption = Annotated[
    bool, typer.Option(help="Also push the fifth of six leaders that are 10 points apart from each other.")
]
LimitOption = Annotated[
    float, typer.Option(min=0.1, help="The service's limit of influence; inf for none, as before there was one.")
]
ScoreSpreadOption = Annotated[float, typer.Option(min=1, help="Standard deviation of the true scores, Elo points.")]


def places(
    attack: Annotated[
        list[str] | None, typer.Option(help="Only this attack; repeat it.", show_default=", ".join(ATTACKS))
    ] = None,
    target: TargetOption = None,
    leaders: LeadersOption = True,
    score_sd: ScoreSpreadOption = 140.0,
    annotators: Annotated[int, typer.Option(min=10, help="Annotators, including attackers.")] = 42,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of annotators who attack.")] = 0.1,
    votes_each: Annotated[int, typer.Option(min=1, help="Votes of every annotator.")] = 200,
    attack_votes: Annotated[
        int | None, typer.Option(min=1, help="Votes of every attacker; by default as many.")
    ] = None,
    influence_limit: LimitOption = DEFAULT_LIMIT,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds to draw.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Attack models at several places of the leaderboard: what they gain, and which annotators the rule finds."""
    check_figure(figure)
    chosen = tuple(attack or ATTACKS)
    for name in chosen:
        if name not in (*STRATEGIES, *TUNED):
            raise BadInputError(f"--attack must be one of {', '.join((*STRATEGIES, *TUNED))}, is {name}")
    started = time.perf_counter()
    setups = make_setups(
        target, leaders=leaders, score_sd=score_sd, annotators=annotators, share=share, votes_each=votes_each,
        attack_votes=attack_votes,
    )  # fmt: skip
    rows: list[Row] = []
    with showing_stages() as stages:
        stages.stage("attacking")
        cases = [(name, setup) for name in chosen for setup in setups]
        for done, (name, setup) in enumerate(cases, start=1):
            gains = measure(
                TUNED.get(name, name), setup, seeds=range(seed, seed + repeats), processes=processes,
                boards=boards_with(limit_of(influence_limit)),
            )  # fmt: skip
            rows += [{"attack": name, "place": place_of(setup), **asdict(gain)} for gain in gains]
            if stages.share is not None:
                stages.share(done / len(cases))
    title = f"{annotators} annotators, {votes_each} votes each, {100 * share:g} % attackers, {repeats} crowds"
    report = Report(
        experiment="places",
        settings={"setups": [asdict(setup) for setup in setups], "repeats": repeats, "seed": seed,
            "influence_limit": limit_of(influence_limit)},
        results={"gains": rows},
        tables=[_table(rows, f"{title}, score sd {score_sd:g}")],
        notes=[
            "Ranks gained (± sd over crowds); beyond: what m-elo gives for the same votes (± its standard error).",
            "Found: attackers that the service's rule flags, %; wronged: honest annotators.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def limit_of(limit: float) -> float | None:
    """Return the limit as a setting: None for infinity."""
    return None if limit == math.inf else limit


def make_setups(
    target: Sequence[int] | None, *, leaders: bool, score_sd: float, annotators: int, share: float, votes_each: int,
    attack_votes: int | None = None,
) -> list[Setup]:  # fmt: skip
    """Return an arena for each place, and one with close leaders.

    Raises
    ------
    BadInputError
        A place does not exist.
    """
    plain = Setup(
        n_annotators=annotators, votes_each=votes_each, share=share, score_sd=score_sd, attack_votes=attack_votes
    )
    wanted = tuple(target or PLACES)
    if not 0 <= min(wanted) <= max(wanted) < plain.n_models:
        raise BadInputError(f"--target must be from 0 to {plain.n_models - 1}")
    setups = [replace(plain, target=place) for place in wanted]
    if leaders:
        setups.append(replace(plain, target=plain.n_models - FIFTH, leaders=LEADERS))
    return setups


def place_of(setup: Setup) -> str:
    """Return the name of the target's place."""
    return "5th of six leaders" if setup.leaders else str(setup.target)


def _table(rows: Rows, title: str) -> Table:
    lines: dict[tuple[str, str], dict[str, object]] = {}
    for row in rows:
        own = lines.setdefault((row["attack"], row["place"]), {"attack": row["attack"], "place": row["place"]})
        own[row["board"]] = "–" if row["ranks"] is None else f"{row['ranks']:+.1f} ± {row['ranks_sd'] or 0.0:.1f}"
        beyond = "–" if row["beyond"] is None else f"{row['beyond']:+.2f} ± {row['beyond_se'] or 0.0:.2f}"
        own[f"{row['board']}, beyond"] = beyond
        if row["found"] is not None and row["board"] == "flagged stay":
            own["found"], own["wronged"] = f"{100 * row['found']:.0f}", f"{100 * row['wronged']:.2f}"
    return table(
        f"What attackers gain · {title}",
        list(lines.values()),
        {
            "Attack": word("attack"), "Place": word("place"), PLAIN: word(PLAIN),
            **{name: word(name) for board in BOARDS if board != PLAIN for name in (board, f"{board}, beyond")},
            "Found": word("found"), "Wronged": word("wronged"),
        },
        text=["Attack", "Place"],
    )  # fmt: skip


def _chart(rows: Rows) -> Spec:
    attacks = list(dict.fromkeys(row["attack"] for row in rows))
    wanted = list(dict.fromkeys(row["place"] for row in rows))
    return side_by_side(
        *(
            panel(
                [row for row in rows if row["board"] == board], board, layer("point", filled=True, size=40),
                x=axis("ranks", "ranks gained", zero=True), y=category("attack", None, attacks),
                color=colours("place", "place", wanted),
            )
            for board in BOARDS
        )
    )  # fmt: skip
