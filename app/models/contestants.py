"""For which model a vote counts.

A vote keeps the model under which it was recorded. Where that model was merged into another, or has changed since, the
vote counts for another model, its contestant. Both are one rule: the votes on a model, or those cast before a time,
count for another model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, DateTime, Integer, and_, case, cast, func, literal_column, select
from sqlalchemy.dialects import postgresql

from app.database.tables import model_merges, models, votes

ALWAYS = datetime.max.replace(tzinfo=UTC)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), ALWAYS - timedelta(days=1)


@dataclass(frozen=True, order=True)
class Rule:
    """A model's votes that were cast before a time, all of them before `ALWAYS`, count for the model `into_id`."""

    before: datetime
    into_id: int


@dataclass(frozen=True)
class Contestants:
    """For which models votes count, by the rules in force at some time.

    Attributes
    ----------
    rules : number of a model → its rules by time. The first that covers a vote holds. No rules lead in a circle
    """

    rules: Mapping[int, Sequence[Rule]] = field(default_factory=dict)

    def of(self, model_id: int, cast_at: datetime = _LATEST) -> int:
        """Return the model for which a vote on a model counts, by default a vote of days to come."""
        into = next((rule.into_id for rule in self.rules.get(model_id, ()) if cast_at < rule.before), None)
        return model_id if into is None else self.of(into, cast_at)

    @property
    def merged(self) -> set[int]:
        """Return the models that no vote of days to come counts for."""
        return {model_id for model_id in self.rules if self.of(model_id) != model_id}

    def leads_to(self, model_id: int, target: int) -> bool:
        """Whether votes on a model, cast at some time, count for the target or on the way to another model."""
        return model_id == target or any(self.leads_to(rule.into_id, target) for rule in self.rules.get(model_id, ()))

    def sides(self) -> tuple[ColumnElement[int], ColumnElement[int]]:
        """Return in SQL the models for which a row of `votes` counts, instead of model A and model B."""
        cast_at = func.coalesce(votes.c.voted_at, votes.c.received_at)
        return self._column(votes.c.model_a_id, cast_at), self._column(votes.c.model_b_id, cast_at)

    def ranked(self) -> ColumnElement[int]:
        """Return in SQL the models for which the ranking of a row of `votes` counts: a row for each."""
        one = func.jsonb_path_query(votes.c.ranking, literal_column("'$[*][*]'"))
        model_id = cast(one.column_valued("ranked", joins_implicitly=True), Integer)
        return self._column(model_id, func.coalesce(votes.c.voted_at, votes.c.received_at))

    def sides_sql(self, table: str) -> tuple[str, str]:
        """Return the same as SQL without parameters, for statements in text in which `votes` has the name `table`."""
        dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # not typed
        cast_at = literal_column(f"coalesce({table}.voted_at, {table}.received_at)", DateTime(timezone=True))
        a, b = (
            str(
                self._column(literal_column(f"{table}.{side}"), cast_at).compile(
                    dialect=dialect, compile_kwargs={"literal_binds": True}
                )
            )
            for side in ("model_a_id", "model_b_id")
        )
        return a, b

    def _column(self, model_id: ColumnElement[int], cast_at: ColumnElement[datetime]) -> ColumnElement[int]:
        cases = [
            (and_(model_id == number, cast_at < until) if until < ALWAYS else model_id == number, into)
            for number in self.rules
            for until, into in self._periods(number)
        ]
        return case(*cases, else_=model_id) if cases else model_id

    def _periods(self, model_id: int) -> Iterator[tuple[datetime, int]]:
        """Yield the periods in which the model's votes count for one model: the end, and that model; in order."""
        ends = sorted({rule.before for rules in self.rules.values() for rule in rules} | {ALWAYS})
        into = [self.of(model_id, since) for since in (_EARLIEST, *ends[:-1])]
        for place, end in enumerate(ends):
            if place + 1 == len(ends) or into[place + 1] != into[place]:
                yield end, into[place]


AS_RECORDED = Contestants()
"""Every vote counts for the models under which it was recorded."""


def read_contestants(conn: Connection, seen: ColumnElement[bool] | None = None) -> Contestants:
    """Return the rules in force: of each model and time the rule that was recorded last, unless that ends it.

    `seen`: picks the rows of `model_merges` that are read; None for all.
    """
    c = model_merges.c
    rows = select(c.model_id, c.before, c.into_id).order_by(c.id)
    last = {
        (row.model_id, row.before or ALWAYS): row.into_id
        for row in conn.execute(rows if seen is None else rows.where(seen))
    }
    rules: dict[int, list[Rule]] = {}
    for (model_id, before), into_id in sorted(last.items(), key=lambda item: item[0]):
        if into_id is not None:
            rules.setdefault(model_id, []).append(Rule(before, into_id))
    return Contestants(rules)


def read_unoffered_ids(conn: Connection) -> set[int]:
    """Return the models that battles do not show: archived, merged, or what a model was before it changed."""
    archived = select(models.c.id).where(models.c.archived_at.is_not(None))
    former = select(model_merges.c.into_id).where(
        model_merges.c.before.is_not(None), model_merges.c.into_id.is_not(None)
    )
    return {*conn.execute(archived.union(former)).scalars(), *read_contestants(conn).merged}
