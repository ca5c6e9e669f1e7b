"""A right that one process holds for a while. Time is the database's; the epoch is the fencing token."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, Interval, and_, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from app.store.tables import leases


def acquire_lease(conn: Connection, name: str, holder: str, seconds: float) -> int | None:
    """Take the lease if nobody holds it; return its new epoch, or None while another holder's time runs.

    Every taking raises the epoch, also by the same holder, so an epoch names one holding for ever.
    """
    taken = insert(leases).values(name=name, holder=holder, epoch=1, expires_at=_now_plus(seconds))
    statement = taken.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={"holder": holder, "epoch": leases.c.epoch + 1, "expires_at": _now_plus(seconds)},
        where=leases.c.expires_at <= func.clock_timestamp(),
    ).returning(leases.c.epoch)
    return conn.execute(statement).scalar_one_or_none()


def renew_lease(conn: Connection, name: str, epoch: int, seconds: float) -> bool:
    """Let the lease run `seconds` from now; False if it has run out or been taken over, which is final."""
    statement = update(leases).where(_held(name, epoch)).values(expires_at=_now_plus(seconds))
    return conn.execute(statement).rowcount == 1


def release_lease(conn: Connection, name: str, epoch: int) -> None:
    """Give the lease back at once; nothing happens if it is no longer held."""
    conn.execute(update(leases).where(_held(name, epoch)).values(expires_at=func.clock_timestamp()))


def lock_lease(conn: Connection, name: str, epoch: int) -> bool:
    """Hold the lease's row until this transaction ends, if the lease is held in this epoch.

    True is the fence: until the commit nobody can take the lease over, so what the transaction writes was
    written by the only holder.
    """
    statement = select(leases.c.epoch).where(_held(name, epoch)).with_for_update()
    return conn.execute(statement).scalar_one_or_none() is not None


def lease_is_free(conn: Connection, name: str) -> bool:
    """Whether an attempt to take the lease would succeed now."""
    statement = select(leases.c.epoch).where(leases.c.name == name, leases.c.expires_at > func.clock_timestamp())
    return conn.execute(statement).scalar_one_or_none() is None


def _held(name: str, epoch: int) -> ColumnElement[bool]:
    return and_(leases.c.name == name, leases.c.epoch == epoch, leases.c.expires_at > func.clock_timestamp())


def _now_plus(seconds: float) -> ColumnElement[object]:
    return func.clock_timestamp() + literal(timedelta(seconds=seconds), Interval)
