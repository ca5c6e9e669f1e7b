"""The command `stable-arena lab`: experiments, each imported only when it runs.

To add one, write `<name>.py` here with one function of that name and add its line to `EXPERIMENTS`.
"""

import typer

from app.cli.command import LazyGroup, Listed

EXPERIMENTS = {
    "prediction": Listed(
        "stable_arena_lab.commands.prediction:prediction",
        "Predict held-out votes by every method (the am-ELO paper's Table 2 and Figure 3).",
    ),
    "scores": Listed(
        "stable_arena_lab.commands.scores:scores",
        "Rate by every method: scores, win rates, records, each annotator alone (the am-ELO paper's Figures 1 and 4).",
    ),
    "consistency": Listed(
        "stable_arena_lab.commands.consistency:consistency",
        "Run the paper's gradient descent from random starts and compare the rankings (the am-ELO paper's Figure 5).",
    ),
    "perturb": Listed(
        "stable_arena_lab.commands.perturb:perturb",
        "Make annotators vote badly; see which ranking holds and who is found (the am-ELO paper's Figures 6 and 7).",
    ),
    "order": Listed(
        "stable_arena_lab.commands.order:order",
        "Shuffle the votes: how far Elo moves by K and averaging, beside m-ELO and am-ELO (Elo Uncovered).",
    ),
    "transitivity": Listed(
        "stable_arena_lab.commands.transitivity:transitivity",
        "Rate A > B > C in four scenarios: which methods get the order right (Elo Uncovered, Table 1, Figures 5, 7).",
    ),
    "bernoulli": Listed(
        "stable_arena_lab.commands.bernoulli:bernoulli",
        "Rate two models by Elo, one of which wins with a fixed probability (Elo Uncovered, Figures 1 to 4 and 6).",
    ),
    "judging": Listed(
        "stable_arena_lab.commands.judging:judging",
        "Measure how annotators are judged, before and now: attackers who gain, honest ones who are wronged, and fits.",
    ),
    "attacks": Listed(
        "stable_arena_lab.commands.attacks:attacks",
        "Attack simulated arenas: how far each leaderboard moves, which annotators each rule flags, and how rightly.",
    ),
    "places": Listed(
        "stable_arena_lab.commands.places:places",
        "Attack models at several places of the leaderboard: what they gain, and which annotators the rule finds.",
    ),
    "adaptive": Listed(
        "stable_arena_lab.commands.adaptive:adaptive",
        "Search, for each leaderboard, the attack that gains most: by attackers who know the rule and simulate it.",
    ),
    "niche": Listed(
        "stable_arena_lab.commands.niche:niche",
        "Frame the honest judges of five models by outvoting them: how many the rule flags.",
    ),
    "sealed": Listed(
        "stable_arena_lab.commands.sealed:sealed",
        "Attack with battles that the attackers choose, and with battles that the service draws.",
    ),
    "policies": Listed(
        "stable_arena_lab.commands.policies:policies",
        "Simulate an arena like yours under every battle policy: how many votes its ranking takes.",
    ),
    "calibration": Listed(
        "stable_arena_lab.commands.calibration:calibration",
        "Find bad annotators by calibration battles: how many votes that takes, and how far δ can fall.",
    ),
    "fragility": Listed(
        "stable_arena_lab.commands.fragility:fragility",
        "Find how few votes, dropped, flipped or added, and how few annotators change the order of the leaderboard.",
    ),
    "budget": Listed(
        "stable_arena_lab.commands.budget:budget",
        "Find the median number of attackers, and of votes, that lift a model by one rank, for each defence.",
    ),
    "habits": Listed(
        "stable_arena_lab.commands.habits:habits",
        "Judge honest annotators with habits of their own, and bad ones among them, by ε alone and by the service.",
    ),
    "parts": Listed(
        "stable_arena_lab.commands.parts:parts",
        "Take each part out of the engine: what attackers gain, who is found and wronged, what intervals hold.",
    ),
    "flags": Listed(
        "stable_arena_lab.commands.flags:flags",
        "Show what each probability from which the rule flags finds and wrongs, and whether stated ones hold.",
    ),
    "coverage": Listed(
        "stable_arena_lab.commands.coverage:coverage",
        "Compare the methods: what their intervals hold, the scale of their scores, and the loss on held-out votes.",
    ),
    "drift": Listed(
        "stable_arena_lab.commands.drift:drift",
        "Weigh the evidence that an ability changed: how often for steady annotators, and for those who changed.",
    ),
    "wronged": Listed(
        "stable_arena_lab.commands.wronged:wronged",
        "Count the annotators that each test flags, and those it would flag if every annotator were honest.",
    ),
}
"""The experiments in the order of the help page."""


class _Experiments(LazyGroup):
    table = EXPERIMENTS


lab = typer.Typer(cls=_Experiments, add_completion=False, no_args_is_help=True)


@lab.callback()
def about() -> None:
    """Repeat the field's experiments on a vote file or a simulated arena.

    docs/laboratory.md has the results.
    """
