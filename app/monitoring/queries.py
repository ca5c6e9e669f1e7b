"""Figures of the whole service: the same from every process, also right after a restart."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Interval,
    Row,
    RowMapping,
    cast,
    func,
    literal,
    literal_column,
    not_,
    select,
    text,
)

from app.annotators.standings import standing_of
from app.auth.queries import is_valid
from app.database.tables import annotators, api_keys, imports, leases, refits, snapshots, webhook_deliveries, webhooks
from app.refits.queries import RUNNING
from app.snapshots.units import VOTES_READ
from app.webhooks.queries import RECEIVER


def limit_statements(conn: Connection, limit: timedelta) -> None:
    """Let the server end every statement of this transaction that takes longer."""
    milliseconds = round(limit.total_seconds() * 1000)
    conn.execute(text("SELECT set_config('statement_timeout', :limit, true)"), {"limit": str(milliseconds)})


def count_ended_refits(conn: Connection) -> dict[str, tuple[int, float]]:
    """Return, by how refits ended, their number and their seconds together."""
    took = func.greatest(func.extract("epoch", refits.c.finished_at - refits.c.started_at), 0)
    columns = refits.c.state, func.count(), func.coalesce(func.sum(took), 0)
    rows = conn.execute(select(*columns).where(refits.c.finished_at.is_not(None)).group_by(refits.c.state))
    return {state: (count, float(seconds)) for state, count, seconds in rows}


def sum_stages(conn: Connection) -> dict[str, tuple[int, float]]:
    """Return, by stage, the number of published refits that went through it and their seconds in it together."""
    stages = func.jsonb_each(refits.c.seconds).table_valued("key", "value", name="stage")
    seconds: ColumnElement[float] = func.sum(literal_column("stage.value::float8"))
    statement = select(stages.c.key, func.count(), seconds).select_from(refits.join(stages, literal_column("true")))
    rows = conn.execute(statement.where(refits.c.state == "done").group_by(stages.c.key))
    return {stage: (count, float(total)) for stage, count, total in rows}


def sum_compilations(conn: Connection, *, refits_read: int) -> tuple[int, float]:
    """Return how many of the refits that published last compiled kernels, and for how many seconds together."""
    took = refits.c.seconds["compile"].as_float().label("took")
    last = select(took).where(refits.c.state == "done").order_by(refits.c.requested_at.desc()).limit(refits_read)
    row = last.subquery()
    number, seconds = conn.execute(select(func.count(row.c.took), func.coalesce(func.sum(row.c.took), 0))).one()
    return number, float(seconds)


def last_ended_refit(conn: Connection) -> RowMapping | None:
    """Return the refit that ended last, if possible not in the future: its `id`, `state` and `seconds_ago`."""
    ago = func.extract("epoch", func.clock_timestamp() - refits.c.finished_at)
    statement = select(refits.c.id, refits.c.state, func.greatest(ago, 0).label("seconds_ago"))
    statement = statement.where(refits.c.finished_at.is_not(None)).order_by(ago < 0, refits.c.finished_at.desc())
    return conn.execute(statement.limit(1)).mappings().one_or_none()


def open_refits(conn: Connection) -> RowMapping:
    """Return how many refits are `waiting` and `running`, and the `…_seconds` of the first of each.

    `waiting_seconds` is below 0 for a refit that was requested while the clock was ahead.
    """
    waits, runs = refits.c.state == "queued", refits.c.state.in_(RUNNING)
    oldest = func.extract("epoch", func.clock_timestamp() - func.min(refits.c.requested_at).filter(waits))
    longest = func.extract("epoch", func.clock_timestamp() - func.min(refits.c.started_at).filter(runs))
    columns = (
        func.count().filter(waits).label("waiting"),
        func.coalesce(oldest, 0).label("waiting_seconds"),
        func.count().filter(runs).label("running"),
        func.greatest(longest, 0).label("running_seconds"),
    )
    return conn.execute(select(*columns).where(refits.c.finished_at.is_(None))).mappings().one()


def count_imports(conn: Connection) -> dict[str, int]:
    """Return the number of imports by state."""
    return _count_by(conn, imports.c.state)


def sum_imported(conn: Connection) -> dict[str, int]:
    """Return what became of the records of all imports: `created`, `duplicates`, `conflicts`, `rejected`."""
    names = ("created", "duplicates", "conflicts", "rejected")
    sums = [func.coalesce(func.sum(imports.c.counts[name].as_integer()), 0).label(name) for name in names]
    tried = func.coalesce(imports.c.options["dry_run"].as_boolean(), False)
    return {name: int(total) for name, total in conn.execute(select(*sums).where(not_(tried))).mappings().one().items()}


def count_deliveries(conn: Connection) -> dict[str, int]:
    """Return the number of messages to webhooks by status."""
    return _count_by(conn, webhook_deliveries.c.status)


def webhook_delays(conn: Connection) -> Sequence[Row[Any, Any, Any]]:
    """Return each `webhook`, its `receiver`, and for how many `seconds` its oldest message waits, the longest first.

    Those that are paused or deleted are left out: their messages wait on purpose.
    """
    d, w = webhook_deliveries.c, webhooks.c
    waits = func.extract("epoch", func.clock_timestamp() - func.min(d.created_at))
    seconds = cast(func.greatest(waits, 0), Double).label("seconds")
    waiting = (d.webhook_id == w.id) & (d.status == "waiting")
    statement = select(w.id.label("webhook"), RECEIVER, seconds).select_from(
        webhooks.outerjoin(webhook_deliveries, waiting)
    )
    statement = statement.where(w.deleted_at.is_(None), w.paused_at.is_(None))
    return conn.execute(statement.group_by(w.id).order_by(seconds.desc(), w.created_at)).all()


def newest_snapshot(conn: Connection) -> RowMapping | None:
    """Return the newest snapshot's figures, without its models; None before the first."""
    c = snapshots.c
    columns = (
        c.number,
        func.extract("epoch", c.published_at).label("published_at"),
        func.extract("epoch", func.clock_timestamp() - c.published_at).label("age_seconds"),
        VOTES_READ.label("votes_read"),
        c.vote_set,
        c.diagnostics["votes"].label("votes"),
        c.diagnostics["rules"].label("rules"),
        c.diagnostics["alarms"].label("alarms"),
        c.diagnostics["warnings"].label("warnings"),
    )
    return conn.execute(select(*columns).order_by(c.number.desc()).limit(1)).mappings().one_or_none()


def count_annotators(conn: Connection) -> dict[str, int]:
    """Return the number of annotators by the standing that holds."""
    c = annotators.c
    return _count_by(conn, standing_of(c.rule_standing, c.override, c.dismissed_below).label("standing"))


def _count_by(conn: Connection, kind: ColumnElement[str]) -> dict[str, int]:
    return {row[0]: row[1] for row in conn.execute(select(kind, func.count()).group_by(kind))}


def ending_keys(conn: Connection, within: timedelta) -> Sequence[Row[Any, Any, Any]]:
    """Return `name`, `prefix` and `seconds_left` of the keys that end soon and were not rotated, first first."""
    c = api_keys.c
    left = cast(func.extract("epoch", c.expires_at - func.clock_timestamp()), Double).label("seconds_left")
    soon = c.expires_at < func.clock_timestamp() + literal(within, Interval)
    statement = select(c.name, c.prefix, left).where(is_valid(), soon, c.replaced_by.is_(None))
    return conn.execute(statement.order_by(c.expires_at)).all()


def find_lease(conn: Connection, name: str) -> Row[Any, Any] | None:
    """Return the last `holder` of a lease, and for how many `seconds_left` it still holds it."""
    left = cast(func.extract("epoch", leases.c.expires_at - func.clock_timestamp()), Double).label("seconds_left")
    return conn.execute(select(leases.c.holder, left).where(leases.c.name == name)).one_or_none()


def database_facts(conn: Connection) -> tuple[str, float, bool]:
    """Return the server's version, its clock in seconds since 1970, and whether transactions may write."""
    statement = text(
        """
        SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp()),
            current_setting('default_transaction_read_only') = 'off' AND NOT pg_is_in_recovery()
        """
    )
    version, clock, writes = conn.execute(statement).one()
    return version, float(clock), writes
