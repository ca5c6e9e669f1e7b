from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np
from sqlalchemy import Connection

from app.annotators.kinds import read_judges
from app.annotators.queries import last_actions
from app.annotators.service import OVERRIDES
from app.annotators.standings import read_standings
from app.errors import ConflictError, StableArenaError
from app.models.contestants import Contestants, read_contestants, read_unoffered_ids
from app.models.queries import list_unreleased, read_model_ids
from app.naming.aliases import read_names
from app.policy.schemas import Anchor, Policy, PolicyVersion
from app.policy.service import current_policy, find_policy
from app.rating.arrays import OUTCOME_VALUES, TABLE_SIZE, Indices, Mask
from app.rating.settings import EVIDENCE_TESTS, LEAST_SPREAD, MOST_SPREAD, SIDE, FlagRule, LoopSettings
from app.refits.counting import over_quota, shares
from app.refits.fit.interface import FitInput, Ids
from app.snapshots.queries import list_leaderboards, read_held, read_past_judges, read_past_unreleased
from app.snapshots.schemas import Snapshot
from app.snapshots.vote_sets import contestants_of, count_retracted, holds_foreign_rows, read_vote_set
from app.votes.arrays import VoteArrays, any_ranking, read_criteria, read_votes
from app.votes.kept import KeptVotes, ReadVotes
from app.votes.queries import any_sealed_vote, most_voted_tags
from app.votes.rules import criterion_tag


class DanglingVotesError(StableArenaError):
    """Votes name an annotator or a model that is not on record: the database was damaged or changed by hand."""

    code = "dangling-votes"
    title = "Votes name what is not on record"


class AnchorLostError(StableArenaError):
    """The policy's anchor names no model: its alias was removed."""

    code = "anchor-lost"
    title = "The policy's anchor is no model"


class NotReproducibleError(ConflictError):
    """The snapshot's votes or settings can no longer be determined."""

    code = "not-reproducible"
    title = "The snapshot cannot be made again"


def load_fit_input(conn: Connection, settings: Policy | None = None, kept: KeptVotes | None = None) -> FitInput:
    """Read every vote on record, the overrides and the policy.

    `conn`: in a REPEATABLE READ transaction, so that the votes are exactly those that the vote set names.
    `settings`: replace those of the policy in force; for a preview.
    `kept`: the votes that the last refit read, so that only new ones are read; None reads all.
    Raises DanglingVotesError.
    """
    vote_set, judges = read_vote_set(conn), read_judges(conn)
    policy = current_policy(conn)
    if settings is not None:
        policy = policy.model_copy(update={"settings": settings})
    annotators = read_standings(conn)
    return _load(
        conn,
        policy,
        settings=policy.settings.loop_settings("am-elo"),
        annotator_ids=_ids([number for number, _, _ in annotators]),
        overrides=[override for _, override, _ in annotators],
        rule_standings=[standing for _, _, standing in annotators],
        judges=judges,
        contestants=read_contestants(conn),
        unreleased=[number for number, _ in list_unreleased(conn)],
        vote_set=vote_set,
        read=_read_all(conn, policy.settings, kept, battles=bool(judges)),
        criteria=read_criteria(
            conn, dated=_dated(conn, policy.settings), contestants=read_contestants(conn), prompts=True
        ),
    )


def load_past_fit_input(conn: Connection, snapshot: Snapshot) -> FitInput:
    """Read what the snapshot's refit read. Annotators and models that came later are in it too, without votes.

    Raises NotReproducibleError: the database was restored from a dump into another cluster: the vote set counts the
    transactions of the old one. Or another version of the service made the snapshot, with settings that are unknown
    now.
    """
    if holds_foreign_rows(conn):
        raise NotReproducibleError("votes were restored from a dump: the vote sets name another cluster's rows")
    actions = last_actions(conn, snapshot.vote_set)
    annotator_ids = _ids([number for number, _, _ in read_standings(conn)])
    # Of the earlier flags only those that the release margin kept are stored. No other standing depended on them.
    held = read_held(conn, snapshot.id)
    policy = find_policy(conn, snapshot.policy_version)
    dated = _dated(conn, policy.settings)
    contestants = contestants_of(conn, snapshot.vote_set)
    prompts = snapshot.diagnostics.get("prompts") is not None
    criteria = read_criteria(conn, dated=dated, vote_set=snapshot.vote_set, contestants=contestants, prompts=prompts)
    judges = read_past_judges(conn, snapshot.id)
    return _load(
        conn,
        policy,
        settings=_past_settings(snapshot),
        annotator_ids=annotator_ids,
        overrides=[OVERRIDES[actions[i]] if i in actions else None for i in annotator_ids.tolist()],
        rule_standings=[held.get(i, "active") for i in annotator_ids.tolist()],
        judges=judges,
        contestants=contestants,
        unreleased=read_past_unreleased(conn, snapshot.id),
        vote_set=snapshot.vote_set,
        read=_read_past(conn, snapshot, contestants, policy.settings, criteria=criteria, battles=bool(judges)),
        criteria=criteria,
        dimensions=_past_dimensions(snapshot),
    )


def _load(
    conn: Connection,
    policy: PolicyVersion,
    *,
    settings: LoopSettings,
    annotator_ids: Ids,
    overrides: Sequence[str | None],
    rule_standings: Sequence[str],
    judges: Sequence[int],
    contestants: Contestants,
    unreleased: Sequence[int],
    vote_set: str,
    read: ReadVotes,
    criteria: Mapping[str, VoteArrays],
    dimensions: Mapping[str, tuple[str, ...]] | None = None,
) -> FitInput:
    """Pick the votes that count: on two models, sealed if the policy asks for it, within the quota.

    Where the policy declares no dimensions, they are the given ones; None tells them by the votes' tags.
    """
    number, ranked = len(read.votes.outcome), any_ranking(conn)
    votes = _on_two_models(read.votes)
    same_model = number - len(votes.outcome)
    if policy.settings.sealed_only:
        votes = votes.take(_sealed(votes))
    unsealed = number - same_model - len(votes.outcome)
    votes = _within_quota(votes, policy.settings)
    dimensions = group_tags(read.tags, votes.tags) if dimensions is None else dict(dimensions)
    model_ids = _ids(read_model_ids(conn))
    settings = replace(
        settings,
        anchor=_place_anchor(conn, policy.settings.anchor, contestants, model_ids),
        unranked=tuple(_positions(_ids(unreleased), model_ids, "model").tolist()),
    )
    counted = {name: _within_quota(_on_two_models(own), policy.settings) for name, own in criteria.items()}
    prompts, *others = _number_prompts([votes, *counted.values()])
    columns = _columns(votes, annotator_ids, model_ids, prompts, ranked=ranked)
    overall = FitInput(
        **columns,
        annotator_ids=annotator_ids,
        model_ids=model_ids,
        overrides=np.array([override or "" for override in overrides], dtype=np.str_),
        rule_standings=np.array(rule_standings, dtype=np.str_),
        settings=settings,
        policy=policy.settings,
        policy_version=policy.version,
        vote_set=vote_set,
        retracted=read.retracted,
        unsealed=unsealed,
        over_quota=number - same_model - unsealed - len(votes.outcome),
        same_model=same_model,
        sealed=np.bincount(columns["annotator"][_sealed(votes)], minlength=len(annotator_ids)),
        dimensions=policy.settings.categories or dimensions,
        tags=tuple(read.tags),
        tag_bits=votes.tags,
        unoffered=_ids(sorted(read_unoffered_ids(conn))),
        judges=np.isin(annotator_ids, judges) if judges else np.zeros(0, dtype=np.bool_),
        measures=votes.measures,
        battles=votes.battle,
    )
    if not criteria or policy.settings.sealed_only:  # no vote by another criterion is sealed
        return overall
    bare = replace(overall, dimensions={}, tags=(), tag_bits=None, measures=None, battles=None)
    inputs = {
        name: replace(bare, **_columns(own, annotator_ids, model_ids, numbers, ranked=ranked))
        for (name, own), numbers in zip(counted.items(), others, strict=True)
    }
    return replace(overall, criteria=inputs)


def _place_anchor(
    conn: Connection, anchor: Anchor | None, contestants: Contestants, model_ids: Ids
) -> tuple[int, float] | None:
    """Return the position of the anchor, by whatever name it has now, and its points. Raises AnchorLostError."""
    if anchor is None:
        return None
    number = read_names(conn, [anchor.model]).number(anchor.model, None)
    if number is None:
        raise AnchorLostError(f"the policy's anchor is {anchor.model!r}, which is the name of no model")
    return int(np.searchsorted(model_ids, contestants.of(number))), anchor.score


def _columns(
    votes: VoteArrays, annotator_ids: Ids, model_ids: Ids, prompts: Indices | None, *, ranked: bool
) -> dict[str, Any]:
    """Return the columns of a `FitInput`; `ranked` where rankings are on record."""
    return {
        "annotator": _positions(votes.annotator_id, annotator_ids, "annotator"),
        "model_a": _positions(votes.model_a_id, model_ids, "model"),
        "model_b": _positions(votes.model_b_id, model_ids, "model"),
        "outcome": OUTCOME_VALUES[votes.outcome],
        "share": None if votes.dates is None or not ranked else shares(votes.dates),
        "prompts": prompts,
    }


def _number_prompts(parts: Sequence[VoteArrays]) -> list[Indices | None]:
    """Return the prompts of each part's votes as numbers, the same in all, −1 without one; None where no vote has one.

    Votes by several criteria on one prompt have the same number.
    """
    asked = [each.prompt if each.prompt is not None and each.prompt.any() else None for each in parts]
    given = [each for each in asked if each is not None]
    if not given:
        return [None] * len(parts)
    keys, number = np.unique(np.concatenate(given), return_inverse=True)
    known = iter(np.split(np.where(keys == 0, -1, np.arange(len(keys)))[number], np.cumsum([*map(len, given)])[:-1]))
    return [None if each is None else next(known) for each in asked]


def _dated(conn: Connection, settings: Policy) -> bool:
    """Whether the votes' dates and ids are read: for a quota, or to know the pairs of a ranking."""
    return settings.max_votes_per_day is not None or any_ranking(conn)


def _on_two_models(votes: VoteArrays) -> VoteArrays:
    one_model = votes.model_a_id == votes.model_b_id
    return votes.take(~one_model) if one_model.any() else votes


def _within_quota(votes: VoteArrays, settings: Policy) -> VoteArrays:
    if settings.max_votes_per_day is None or votes.dates is None:
        return votes
    return votes.take(~over_quota(votes.annotator_id, votes.dates, settings.max_votes_per_day))


def group_tags(tags: Sequence[str], bits: Ids | None) -> dict[str, tuple[str, ...]]:
    """Return tags that no vote shares as the categories of one dimension, which has the name of its first tag."""
    together = np.unique(bits) if bits is not None else np.empty(0, dtype=np.int32)
    groups: list[int] = []  # the tags of each, as bits
    for number in range(len(tags)):
        shared = int(np.bitwise_or.reduce(together[(together >> number) & 1 == 1], initial=1 << number))
        place = next((i for i, group in enumerate(groups) if not group & shared), len(groups))
        groups[place:] = [(groups[place] if place < len(groups) else 0) | 1 << number, *groups[place + 1 :]]
    members = [tuple(tag for number, tag in enumerate(tags) if group >> number & 1) for group in groups]
    return {group[0]: group for group in members}


def _read_all(conn: Connection, settings: Policy, kept: KeptVotes | None, *, battles: bool) -> ReadVotes:
    """Read the votes on record that are not retracted."""
    contestants, tags = read_contestants(conn), settings.category_tags
    if kept is not None:
        dated, features = _dated(conn, settings), _measured(settings)
        read = kept.read(
            conn, contestants, tags=tags or settings.max_tag_boards, dated=dated, features=features, battles=battles
        )
        if read is not None:
            return read
    return _read(conn, settings, tags or most_voted_tags(conn, settings.max_tag_boards), contestants, battles=battles)


def _read_past(
    conn: Connection,
    snapshot: Snapshot,
    contestants: Contestants,
    settings: Policy,
    *,
    criteria: Collection[str],
    battles: bool,
) -> ReadVotes:
    """Read the overall votes that the snapshot's refit read."""
    tags, dimensions = settings.category_tags, _past_dimensions(snapshot)
    if not tags and dimensions is not None:
        tags = [tag for values in dimensions.values() for tag in values]
    elif not tags:
        no_tags = {"", *map(criterion_tag, criteria)}
        tags = sorted({tag for _, tag in list_leaderboards(conn, snapshot.id)} - no_tags)
    prompts = snapshot.diagnostics.get("prompts") is not None  # it takes a fifth of the time to look
    return _read(conn, settings, tags, contestants, vote_set=snapshot.vote_set, battles=battles, prompts=prompts)


def _read(
    conn: Connection,
    settings: Policy,
    tags: list[str],
    contestants: Contestants,
    *,
    vote_set: str | None = None,
    battles: bool = False,
    prompts: bool = True,
) -> ReadVotes:
    retracted = count_retracted(conn, vote_set)
    votes = read_votes(
        conn,
        dated=_dated(conn, settings),
        sealed=any_sealed_vote(conn),
        tags=tags,
        vote_set=vote_set,
        any_retracted=retracted > 0,
        contestants=contestants,
        features=_measured(settings),
        battles=battles,
        prompts=prompts,
    )
    return ReadVotes(votes, tags, retracted)


def _past_dimensions(snapshot: Snapshot) -> dict[str, tuple[str, ...]] | None:
    """Return the tags of each dimension with votes that counted; None for a snapshot of a version without dimensions.

    The votes do not tell them alone: which tags form a dimension depends on the tags that had most votes then.
    """
    recorded = snapshot.diagnostics.get("categories")
    return None if recorded is None else {name: tuple(filter(None, one["votes"])) for name, one in recorded.items()}


def _measured(settings: Policy) -> list[str]:
    return [name for name in settings.style_features if name != SIDE]


def _sealed(votes: VoteArrays) -> Mask:
    """Return which votes are sealed; none where none on record is."""
    return np.zeros(len(votes.outcome), dtype=np.bool_) if votes.sealed is None else votes.sealed


RETIRED_TESTS = ("contrary", "mimic")  # coin, favour and follower find what they found


def _past_settings(snapshot: Snapshot) -> LoopSettings:
    # A setting that the version did not know yet does what the version did.
    past = {"flag_rule": "threshold", "influence_limit": None, **snapshot.settings}
    past.pop("anchor", None)  # the policy has it
    past.pop("flag_probability", None)  # it mattered to the rule probability alone
    past.pop("seek_higher", None)  # it changed few fits, of few votes
    past.pop("ability_cap", None)  # these two mend what maximising over abilities did to scores
    past.pop("bias_correction", None)
    if isinstance(past.get("prior_sd"), int | float):
        past["prior_sd"] = min(max(past["prior_sd"], LEAST_SPREAD), MOST_SPREAD)
    past["evidence_tests"] = [test for test in past.get("evidence_tests", EVIDENCE_TESTS) if test not in RETIRED_TESTS]
    known = {*(field.name for field in fields(LoopSettings)), *EVIDENCE_TESTS, *get_args(FlagRule)}
    given = {*past, *past["evidence_tests"], past["flag_rule"]}
    if not given <= known:
        named = ", ".join(sorted(given - known))
        raise NotReproducibleError(f"version {snapshot.code_version} made it, with settings unknown now: {named}")
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in past.items()}
    return LoopSettings(**values)


def _ids(numbers: Sequence[int]) -> Ids:
    return np.array(numbers, dtype=np.int32)


def _positions(ids: Ids, known: Ids, what: str) -> Ids:
    """Return the position of each id among the known ones, which are in order."""
    if not len(ids):
        return np.empty(0, dtype=np.int32)
    place = _search(known, ids)
    if place.min() < 0:
        # The votes' columns have no foreign keys, so this is the only check.
        unknown = ids[place < 0]
        raise DanglingVotesError(
            f"{len(unknown)} vote(s) name {what}s that are not on record, such as number {unknown[0]}"
        )
    return place


def _search(known: Ids, ids: Ids) -> Ids:
    """Return the place of each id in the known ones, which are in order; -1 for an id that is not known."""
    if not len(known) or known[-1] >= TABLE_SIZE or ids.min() < 0 or ids.max() > known[-1]:
        return np.where(np.isin(ids, known), np.searchsorted(known, ids), -1).astype(np.int32)
    table = np.full(int(known[-1]) + 1, -1, dtype=np.int32)
    table[known] = np.arange(len(known), dtype=np.int32)
    return table[ids]
