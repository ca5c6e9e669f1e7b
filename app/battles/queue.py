from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import SystemRandom

from app.answers.pool import AnswerPools, Offer, OfferedPrompt, choose_prompt, sample_prompts
from app.api.group_commit import COMMIT_SIZE, GroupCommit
from app.battles.drawing import BattleDraws, Histories
from app.battles.offering import (
    BattleReceipt,
    Preparation,
    Submission,
    find_candidates,
    names_of,
    offer_battles,
)
from app.battles.prompts import NothingLeftError, VotesUsedUpError, read_recent, read_seen, read_votes_left
from app.battles.roster import Rosters
from app.database.engine import Database
from app.errors import StableArenaError
from app.guard.process_metrics import Gauges, highest_gauge
from app.invitations.queries import find_open
from app.invitations.voters import NotInvitedError
from app.naming.aliases import read_names
from app.naming.known_names import KnownNames
from app.settings import Settings
from app.state import ProcessState

_QUEUED = highest_gauge("stable_arena_battle_queue_battles", "Battles that wait for their commit")


class BattleQueue(GroupCommit[Submission, BattleReceipt]):
    """Battles that are asked for, which share commits."""

    def __init__(
        self,
        database: Database,
        *,
        token_seconds: int,
        queue_size: int,
        names: KnownNames,
        commit_size: int = COMMIT_SIZE,
    ) -> None:
        self._database = database
        self._names = names
        self._rosters = Rosters(database)
        self._seconds = token_seconds
        self._random, self._pools = SystemRandom(), AnswerPools(database)
        self._draws, self._histories = BattleDraws(self._random), Histories()
        super().__init__(
            database,
            self._look_up,
            what="battles",
            queue_size=queue_size,
            commit_size=commit_size,
        )

    def _look_up(self, group: Sequence[Submission]) -> "partial[list[BattleReceipt | StableArenaError]]":
        listed = {names_of(one.battle) for one in group}
        named = {name for names in listed if names is not None for name in names}
        known = self._names.look_up(named, {one.annotator for one in group if isinstance(one.annotator, str)})
        numbers = {name: number for name in named if (number := known.models.get(name)) is not None}
        if unknown := named - numbers.keys():  # those with aliases, whose number depends on the time
            with self._database.read() as conn:
                found = read_names(conn, unknown)
            numbers |= {name: number for name in unknown if (number := found.number(name, None)) is not None}
        roster = self._rosters.current(numbers.values())
        candidates = {names: find_candidates(names, numbers, roster) for names in listed}
        prepared = Preparation(roster, candidates, {}, known.annotators)
        if asked := [one for one in group if one.battle.answers]:
            prepared = self._choose_prompts(asked, prepared)
        pools = {pool for one in group if isinstance(pool := prepared.models(one), tuple)}
        prepared = replace(prepared, set_numbers=self._rosters.set_numbers(pools))
        return partial(
            offer_battles, prepared=prepared, draws=self._draws, histories=self._histories, seconds=self._seconds
        )

    def _choose_prompts(self, asked: Sequence[Submission], prepared: Preparation) -> Preparation:
        """Choose a prompt for each battle that is to show answers."""
        pool = self._pools.current()
        prompts: dict[int, OfferedPrompt | StableArenaError] = {}
        offers: list[tuple[Submission, Offer]] = []
        for one in asked:
            models = prepared.candidates[names_of(one.battle)]
            if isinstance(models, StableArenaError):
                prompts[id(one)] = models
            else:
                offers.append((one, pool.offer(models, one.battle.category)))
        voters = {(one.voter, prepared.number(one)) for one in asked if one.voter is not None}
        with self._database.read() as conn:
            doors = find_open(conn, {voter.invitation_id for voter, _ in voters}) if voters else set()
            left = read_votes_left(conn, voters)
            numbers = [prepared.number(one) for one, _ in offers]
            seen = read_recent(conn, {number for number in numbers if number is not None})
            samples = [
                sample_prompts(self._random, offered) if number in seen.in_part else offered
                for number, (_, offered) in zip(numbers, offers, strict=True)
            ]
            read_seen(conn, zip(numbers, samples, strict=True), seen)
            for number, (one, offered), sample in zip(numbers, offers, samples, strict=True):
                if one.voter is not None and one.voter.invitation_id not in doors:
                    prompts[id(one)] = NotInvitedError("this link has been revoked or has expired")
                    continue
                if one.voter is not None and left.get(one.voter.id, 1) <= 0:
                    prompts[id(one)] = VotesUsedUpError("every vote that this invitation allows is cast")
                    continue
                chosen = choose_prompt(self._random, sample, seen.by(number))
                if chosen is None and sample is not offered:
                    read_seen(conn, [(number, offered)], seen)
                    chosen = choose_prompt(self._random, offered, seen.by(number))
                prompts[id(one)] = chosen or NothingLeftError("every prompt was shown with every pair of its answers")
        return replace(prepared, prompts=prompts, seen=seen, votes_left=left)


def provide_battle_queue(state: ProcessState) -> None:
    """Hold the queue, which records the battles that wait before the process ends."""
    settings = state[Settings]
    state[BattleQueue] = queue = BattleQueue(
        state[Database],
        token_seconds=settings.battles.token_seconds,
        queue_size=settings.ingest.queue_size,
        names=state[KnownNames],
    )
    state[Gauges].watch(_QUEUED, lambda: queue.waiting)
    state.closing.push_async_callback(queue.close)
