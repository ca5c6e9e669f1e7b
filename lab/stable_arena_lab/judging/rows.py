"""The rows of the table: each a question about the judging of annotators, with the cases that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.attacks.tuned import TUNED, Tuning
from stable_arena_lab.defences.habits import WORLDS, Crowd
from stable_arena_lab.defences.niche import Niche
from stable_arena_lab.judging.cases import AttackCase, CrowdCase, NicheCase, UnsureCase
from stable_arena_lab.judging.figures import Case
from stable_arena_lab.judging.fits import BudgetCase, RefitCase

FOUR = Setup(votes_each=200)  # 4 of 42 annotators
FIFTH = replace(FOUR, target=15, leaders=6)
PLACES = (1, 10, 15, 18)
SIZES = (51, 200)
HONEST = 38  # annotators of a crowd of 42 with four attackers


def _by_place(attack: str | Tuning) -> list[Case]:
    return [AttackCase(f"place {place}", attack, replace(FOUR, target=place)) for place in PLACES]


def _sybils(accounts: int, each: int) -> Case:
    setup = replace(
        FOUR, n_annotators=HONEST + accounts, share=accounts / (HONEST + accounts), attack_votes=each, target=10
    )
    return AttackCase(f"{accounts} accounts of {each} votes, place 10", TUNED["able favourer"], setup)


def _crowds(worlds: Sequence[str]) -> list[Case]:
    return [CrowdCase(f"{world}, {each} votes", Crowd(world, votes_each=each)) for world in worlds for each in SIZES]


ROWS: Mapping[str, Sequence[Case]] = {
    "target-only": _by_place("target-only"),
    "careful mimics": _by_place("careful-mimic"),
    "able favourers": [AttackCase("5th of six leaders", TUNED["able favourer"], FIFTH)],
    "tuned mimics": [AttackCase("5th of six leaders", TUNED["tuned mimic"], FIFTH)],
    "close pairs": [
        AttackCase(f"place 1, {each} votes", TUNED["close pairs"], replace(FOUR, votes_each=each)) for each in SIZES
    ],
    "many mimics": [AttackCase("10 of 210, 51 votes", "mimic", Setup(n_annotators=210, share=10 / 210))],
    "sybils": [_sybils(4, 200), _sybils(16, 51)],
    "alike": _crowds(["alike"]),
    "readiness to tie": _crowds(["readiness to tie, sd 1.5"]),
    "tiers": _crowds(["a third think in tiers"]),
    "leans": _crowds(["lean, sd 150", "lean, sd 300", *(world for world in WORLDS if "leans" in world)]),
    "tastes": _crowds(["tastes, sd 200", "tastes in families, sd 200"]),
    "unsure flags": [UnsureCase(f"score sd 70, {each} votes", Crowd(votes_each=each, score_sd=70.0)) for each in SIZES],
    "coins": [
        CrowdCase(f"score sd {sd:g}, {each} votes", Crowd(bad="coin", votes_each=each, score_sd=sd))
        for sd in (140.0, 70.0)
        for each in SIZES
    ],
    "niche": [NicheCase("4 attackers, 5 judges", Niche(judges=5))],
    "budget": [BudgetCase(f"place {place}", replace(FOUR, target=place)) for place in (1, 10)],
    "failed refits": [
        RefitCase(f"21 attacks, {each} votes", replace(FOUR, votes_each=each, target=10)) for each in SIZES
    ],
}
"""42 annotators, 200 votes each, 20 models, scores of sd 140, unless a case says more."""
