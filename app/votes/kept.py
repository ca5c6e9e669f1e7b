"""The columns of the votes that the last refit read, in files beside the worker: the next one reads what is new.

A folder has a file for each column, with the votes in the order in which refits read them, and a list that says which
votes these are: those that the vote set of a published snapshot names. A refit adds the new votes at the files' ends,
and writes the list once its snapshot is published. Until then the old list holds, which counts fewer votes.

The files hold numbers, no keys and no metadata: nothing in them goes when an annotator is erased, but the numbers of
battles, where judges vote: a question in the metadata has one, so all is read anew. Retracted votes are in them too.
Which are retracted is asked anew each time.
"""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import structlog
from numpy.typing import NDArray
from sqlalchemy import Connection, select, text

from app.database.tables import snapshots
from app.drafts import draft_of
from app.models.contestants import Contestants
from app.rating.threads import map_parts
from app.snapshots.vote_sets import new_votes_since, read_retracted_ids, read_vote_set
from app.votes.arrays import VoteArrays, VoteDates, any_ranking, read_recorded
from app.votes.rules import criterion_of

log = structlog.get_logger()

FORMAT = 2
"""Files of another format are not read."""
MOST_TAG_SETS = 100_000
"""With more different sets of tags, votes are not kept: a list of them would be as long as the votes."""

Columns = dict[str, NDArray[Any]]

_ALWAYS = ("annotator_id", "model_a_id", "model_b_id", "outcome", "sealed", "tag_set", "prompt")
_IDS = ("id_high", "id_low")
_TYPES: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(("annotator_id", "model_a_id", "model_b_id", "tag_set", "day"), np.dtype(np.int32)),
    **dict.fromkeys(_IDS, np.dtype(np.uint64)),
    "prompt": np.dtype(np.int64),
    "outcome": np.dtype(np.int16),
    "sealed": np.dtype(np.bool_),
}
_MEASURES, _BATTLE = "measures", "battle"
_PLACE = text(
    """
    SELECT system_identifier::text || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database())
        || ' ' || (SELECT string_agg(version_num, ' ') FROM alembic_version)
    FROM pg_control_system()
    """
)
_LAST_ERASURE = text("SELECT max(erased_at) FROM annotators")
_TAGS_OF = text("SELECT id, tags FROM votes WHERE id = ANY(CAST(:ids AS uuid[]))")


@dataclass(frozen=True)
class _List:
    """Which votes the files hold.

    Attributes
    ----------
    place : the cluster, the database and its schema, where transactions have the numbers that `vote_set` means
    contestants : for which models the votes count
    snapshot : that was published with the vote set; a database from before it does not have all these votes
    votes : how many; what the files have beyond them is of a refit that published nothing
    checksums : CRC-32 of each column
    features : whose measures the files have
    battles : whether they have the battle of each vote
    tag_sets : the sets of tags that votes have, by number; number 0 has none
    """

    format: int
    place: str
    contestants: str
    vote_set: str
    snapshot: str
    votes: int
    checksums: dict[str, int]
    tag_sets: list[list[str]]
    features: list[str]
    battles: bool


@dataclass(frozen=True)
class ReadVotes:
    """The votes that a refit reads.

    Attributes
    ----------
    votes : the overall ones that are not retracted
    tags : those whose votes are told apart
    retracted : how many votes on record are retracted, a ranking with each of its pairs
    """

    votes: VoteArrays
    tags: list[str]
    retracted: int


class _UnusableError(Exception):
    """The files cannot be used; the message says why."""


class KeptVotes:
    """The votes that the last refit read, kept in a folder. One refit at a time uses it.

    `folder`: made when votes are first kept; only its owner may read the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next: _List | None = None
        self._features, self._battles = list[str](), False
        self._given_up = False

    def read(
        self, conn: Connection, contestants: Contestants, *, tags: Sequence[str] | int, dated: bool,
        features: Sequence[str] = (), battles: bool = False,
    ) -> ReadVotes | None:  # fmt: skip
        """Read what `read_votes` reads: from the files, and what is new from the database.

        Without usable files everything is read, and kept. None if the votes cannot be read in this way.

        `conn`: in a REPEATABLE READ transaction.
        `tags`: which are wanted, or how many: those with the most votes.
        `dated`: whether the dates are wanted.
        `features`: whose measures are wanted.
        `battles`: whether the battle of each vote is wanted.
        """
        self._next, self._features, self._battles = None, list(features), battles
        if self._given_up:
            return None
        place, rules, vote_set = str(conn.execute(_PLACE).scalar_one()), repr(contestants), read_vote_set(conn)
        rules += f" {conn.execute(_LAST_ERASURE).scalar_one()}" * battles
        retracted = read_retracted_ids(conn)
        needed = [*_ALWAYS, *(_IDS if dated or len(retracted) else ()), *(("day",) if dated else ())]
        needed += [name for name, asked in ((_MEASURES, features), (_BATTLE, battles)) if asked]
        last: _List | None = None
        try:
            last = found = self._find(conn, place, rules)
            fresh, tag_sets = _read_fresh(conn, contestants, found, features, battles=battles)
            columns = self._load(found, needed, fresh)
        except _UnusableError as error:
            log.info("votes_read_anew", reason=str(error))
            last, (fresh, tag_sets) = None, _read_fresh(conn, contestants, None, features, battles=battles)
            columns = fresh
        if tag_sets is None:
            log.warning("votes_not_kept", reason=f"they have more than {MOST_TAG_SETS:,} different sets of tags")
            self._given_up = True
            self.clear()
            return None
        # Votes that were restored from a cluster that was ahead of this one are in no vote set yet.
        checksums = None if new_votes_since(conn, vote_set) else self._append(last, fresh)
        if checksums is not None:
            votes = len(columns["outcome"])
            self._next = _List(FORMAT, place, rules, vote_set, "", votes, checksums, tag_sets, self._features, battles)
        chosen = {name: columns[name] for name in needed}
        return _without_retracted(chosen, retracted, tag_sets, tags, ranked=any_ranking(conn))

    def keep(self, snapshot_id: UUID) -> None:
        """Let the next refit use what this one read, now that its snapshot is published."""
        if self._next is None:
            return
        kept, self._next = {**asdict(self._next), "snapshot": str(snapshot_id)}, None
        try:
            with draft_of(self._list, private=True) as draft:
                draft.write_bytes(write_list(kept))
        except OSError as error:
            log.warning("votes_not_kept", reason=str(error))

    def clear(self) -> None:
        """Delete the files."""
        for name in ("votes.list", *(f"{column}.bin" for column in (*_TYPES, _MEASURES, _BATTLE))):
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)

    @property
    def _types(self) -> dict[str, np.dtype[Any]]:
        """The type of each column."""
        measures = np.dtype((np.float64, (2 * len(self._features),)))
        more = {_MEASURES: measures} if self._features else {}
        return {**_TYPES, **more, **({_BATTLE: np.dtype(np.int64)} if self._battles else {})}

    @property
    def _list(self) -> Path:
        return self._folder / "votes.list"

    def _find(self, conn: Connection, place: str, rules: str) -> _List:
        """Return the list of the files.

        Raises _UnusableError.
        """
        try:
            last = _List(**read_list(self._list.read_bytes()))
        except FileNotFoundError:
            raise _UnusableError("no votes are kept yet") from None
        except (OSError, ValueError, TypeError) as error:
            raise _UnusableError(f"the list of the votes kept cannot be read: {error}") from error
        if (last.format, last.place) != (FORMAT, place):
            raise _UnusableError("the votes kept are of another database, or of another version")
        if (last.contestants, last.features, last.battles) != (rules, self._features, self._battles):
            raise _UnusableError("votes count for other models now, an annotator was erased, or more is wanted of them")
        published = conn.execute(select(snapshots.c.vote_set).where(snapshots.c.id == UUID(last.snapshot)))
        if published.scalar_one_or_none() != last.vote_set:
            raise _UnusableError("the database is from before the votes kept")
        return last

    def _load(self, last: _List, needed: Sequence[str], fresh: Columns) -> Columns:
        """Return the columns that are needed, the new votes behind those of the files.

        Raises _UnusableError.
        """

        def load(name: str) -> NDArray[Any]:
            column = np.empty(last.votes + len(fresh[name]), self._types[name])
            old, column[last.votes :] = column[: last.votes].reshape(-1).view(np.uint8).data, fresh[name]
            with (self._folder / f"{name}.bin").open("rb") as file:
                read = file.readinto(old)
            if read != len(old) or zlib.crc32(old) != last.checksums[name]:
                raise _UnusableError(f"the votes kept are damaged: {name}")
            return column

        try:
            return dict(zip(needed, map_parts(load, needed), strict=True))
        except OSError as error:
            raise _UnusableError(f"the votes kept cannot be read: {error}") from error

    def _append(self, last: _List | None, fresh: Columns) -> dict[str, int] | None:
        """Write new votes behind the others, or the first ones; return the checksums, None if that fails."""
        if last is None:
            self.clear()
        start = 0 if last is None else last.votes
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, kind in self._types.items():
                path = self._folder / f"{name}.bin"
                path.touch(mode=0o600)
                with path.open("rb+") as file:
                    file.truncate(start * kind.itemsize)
                    file.seek(0, 2)
                    file.write(fresh[name].reshape(-1).view(np.uint8).data)
        except OSError as error:
            log.warning("votes_not_kept", reason=str(error))
            if last is None:
                self.clear()  # a full disk needs the space
            return None
        before = dict.fromkeys(self._types, 0) if last is None else last.checksums
        return {name: zlib.crc32(fresh[name].data, before[name]) for name in self._types}


def write_list(content: dict[str, Any]) -> bytes:
    """Return the list as a file has it: a checksum, and JSON."""
    written = json.dumps(content).encode()
    return b"%d\n%b" % (zlib.crc32(written), written)


def read_list(file: bytes) -> dict[str, Any]:
    """Return the list in a file.

    Raises ValueError: it is damaged.
    """
    checksum, _, written = file.partition(b"\n")
    if int(checksum) != zlib.crc32(written):
        raise ValueError("its checksum is wrong")
    content: dict[str, Any] = json.loads(written)
    return content


def _read_fresh(
    conn: Connection, contestants: Contestants, last: _List | None, features: Sequence[str], *, battles: bool
) -> tuple[Columns, list[list[str]] | None]:
    """Read the votes that the files do not hold.

    Returns
    -------
    The votes, and the sets of tags: those of the list, then new ones; None if they are too many to be listed.
    """
    fresh = read_recorded(conn, contestants, None if last is None else last.vote_set, features, battles=battles)
    tag_sets = [list[str]()] if last is None else last.tag_sets
    hashes = fresh.pop("tag_hash")
    fresh["tag_set"] = np.zeros(len(hashes), dtype=np.int32)
    tagged = np.flatnonzero(hashes)
    if not len(tagged):
        return fresh, tag_sets
    different, first, place = np.unique(hashes[tagged], return_index=True, return_inverse=True)
    if len(different) > MOST_TAG_SETS:
        return fresh, None
    ids = [UUID(int=(int(fresh["id_high"][i]) << 64) + int(fresh["id_low"][i])) for i in tagged[first]]
    tags_of = {row.id: row.tags for row in conn.execute(_TAGS_OF, {"ids": ids})}
    known = {tuple(tags): number for number, tags in enumerate(tag_sets)}
    numbers = [known.setdefault(tuple(tags_of[vote_id]), len(known)) for vote_id in ids]
    fresh["tag_set"][tagged] = np.array(numbers, dtype=np.int32)[place]
    return fresh, [list(tags) for tags in known] if len(known) <= MOST_TAG_SETS else None


def _without_retracted(
    columns: Columns, retracted: NDArray[np.uint64], tag_sets: Sequence[Sequence[str]], wanted: Sequence[str] | int,
    *, ranked: bool,
) -> ReadVotes:  # fmt: skip
    counted, number = np.ones(len(columns["outcome"]), dtype=np.bool_), 0
    if len(retracted):
        ids = pl.DataFrame({name: columns[name] for name in _IDS}).with_row_index()
        gone = ids.join(pl.DataFrame(retracted, schema=list(_IDS)), on=_IDS, how="semi")
        counted[gone["index"].to_numpy()] = False
        columns, number = {name: column[counted] for name, column in columns.items()}, gone.height
    tag_set = once = columns["tag_set"]
    if ranked:
        ids = pl.DataFrame({name: columns[name] for name in _IDS})
        once = once[ids.select(pl.struct(_IDS).is_first_distinct()).to_series().to_numpy()]
    tags, bits = _choose_tags(tag_set, once, tag_sets, wanted)
    dates = VoteDates(*(columns[name] for name in ("day", *_IDS))) if "day" in columns else None
    plain = {name: column for name, column in columns.items() if name not in ("tag_set", "day", *_IDS)}
    return ReadVotes(VoteArrays(**plain, tags=bits, dates=dates), tags, number)


def _choose_tags(
    tag_set: NDArray[np.int32], once: NDArray[np.int32], tag_sets: Sequence[Sequence[str]], wanted: Sequence[str] | int
) -> tuple[list[str], NDArray[np.int32] | None]:
    """Return these tags, or those with the most votes as `most_voted_tags` does, and the tags of each vote as bits.

    `once` has each vote once, a ranking too.
    """
    if isinstance(wanted, int):
        votes = Counter[str]()
        for tags, number in zip(tag_sets, np.bincount(once, minlength=len(tag_sets)).tolist(), strict=True):
            for tag in tags if number else ():
                votes[tag] += number
        shown = [tag for tag in votes if criterion_of(tag) is None]
        chosen = sorted(shown, key=lambda tag: (-votes[tag], tag))[:wanted]
    else:
        chosen = list(wanted)
    if not chosen:
        return [], None
    bits = [sum(1 << bit for bit, tag in enumerate(chosen) if tag in tags) for tags in tag_sets]
    return chosen, np.array(bits, dtype=np.int32)[tag_set]
