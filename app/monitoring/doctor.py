"""What `stable-arena doctor` looks at before the figures: this machine, and the database from here."""

import importlib.util
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.database.engine import Database
from app.database.notices import TICK_SECONDS, notices_arrive
from app.database.schema import require_current
from app.errors import StableArenaError
from app.models.service import read_look_alikes
from app.monitoring import queries as store
from app.monitoring.checks import Check, check_service
from app.monitoring.service import read_figures
from app.naming.look_alikes import LookAlikes, merge_commands
from app.wording import duration, percent

_GIGABYTE = 1024**3
_LEAST_BYTES, _FEW_BYTES = _GIGABYTE, 5 * _GIGABYTE
_LEAST_SHARE = 0.05
_MOST_NAMED = 10
_SKEW_SECONDS, _MOST_SKEW_SECONDS = 2.0, 30.0


def check_extras(needed: dict[str, str]) -> Check:
    """Check that what the settings ask for is installed.

    `needed`: extra of the package → the module that it brings.
    """
    missing = [extra for extra, module in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        words = f"The settings ask for what is not installed: {', '.join(missing)}."
        return Check("Configuration", "bad", words, f"pip install 'stable-arena[{','.join(missing)}]'")
    return Check("Configuration", "good", "Every setting is known and has a value that is allowed.")


def check_disk(name: str, folder: Path) -> Check:
    """Check that the disk of a folder, or of the nearest one above it, has room."""
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    words = f"{usage.free / _GIGABYTE:,.1f} GiB are free at {folder}, {percent(usage.free / usage.total)} of the disk."
    remedy = "Make room: a full disk stops votes. Move old backups and logs, or give the disk more."
    if usage.free < _LEAST_BYTES:
        return Check(name, "bad", words, remedy)
    tight = usage.free < _FEW_BYTES and usage.free < _LEAST_SHARE * usage.total
    return Check(name, "warn" if tight else "good", words, remedy if tight else None)


def check_temporary_disk() -> Check:
    """Check the disk on which uploads and exports are made."""
    return check_disk("Disk for uploads", Path(tempfile.gettempdir()))


def cannot_open(error: StableArenaError) -> Check:
    """Return the check of a database that cannot be opened."""
    remedies = {
        "schema-behind": "Run stable-arena migrate with the newest version that is installed anywhere.",
        "database-busy": "Look at pg_stat_activity; raise max_connections or close what holds them.",
        "database-too-old": "Move to PostgreSQL 15 or newer: stable-arena backup there, stable-arena restore here.",
        "invalid": "Start stable-arena serve once, or set STABLE_ARENA_DATABASE_URL.",
    }
    usual = "Is the server up, and are STABLE_ARENA_DATABASE_URL and its password right?"
    name = "Schema" if error.code == "schema-behind" else "Database"
    return Check(name, "bad", f"{error.detail[:1].upper()}{error.detail[1:]}.", remedies.get(error.code, usual))


def check_database(database: Database) -> list[Check]:
    """Check what the database says of itself and of the service; at the first failure no further."""
    try:
        before = time.time()
        with database.read() as conn:
            version, clock, writes = store.database_facts(conn)
        after = time.time()
        checks = [_server(version, writes=writes), _clock(clock, before, after)]
        if writes:
            checks.append(_notices(database))
        require_current(database)
        checks.append(Check("Schema", "good", "Its tables are those of this version."))
        with database.read() as conn:
            figures = read_figures(conn)
            checks.append(_models(read_look_alikes(conn)))
    except StableArenaError as error:
        return [cannot_open(error)]
    # The health page's own line on the database says less than the ones above.
    return [*checks, *(check for check in check_service(figures) if check.name != "Database")]


def _server(version: str, *, writes: bool) -> Check:
    if writes:
        return Check("Database", "good", f"PostgreSQL {version} answers.")
    remedy = "Point the service at the primary, or end default_transaction_read_only (see operations, Start and stop)."
    return Check("Database", "bad", f"PostgreSQL {version} answers, but takes no writes.", remedy)


def _notices(database: Database) -> Check:
    """Check that work begins at once, by a notice of the database."""
    if database.transaction_pooler:
        return Check("Notices", "good", "Behind a pooler there are none: the worker looks for work every second.")
    if notices_arrive(database):
        return Check("Notices", "good", "What is to be done is noticed at once.")
    words = f"None arrives from the database, so work begins up to {duration(TICK_SECONDS)} late."
    remedy = (
        "A pooler that gives a connection for one transaction keeps them: set "
        "STABLE_ARENA_DATABASE__TRANSACTION_POOLER=true, or let the service connect to PostgreSQL itself."
    )
    return Check("Notices", "warn", words, remedy)


def _models(found: Sequence[LookAlikes]) -> Check:
    if not found:
        return Check("Models", "good", "No two names look the same.")
    words = f"Names of models look the same: {'; '.join(map(str, found[:_MOST_NAMED]))}."
    return Check("Models", "warn", words, f"If they are one, run {merge_commands(found[:_MOST_NAMED])}")


def _clock(database: float, before: float, after: float) -> Check:
    """Compare the clocks; the database looked at its own between the two times here."""
    apart = max(before - database, database - after, 0.0)
    if apart <= _SKEW_SECONDS:
        return Check("Clock", "good", "The database's and this machine's agree.")
    words = f"The database's and this machine's are {duration(apart)} apart."
    remedy = (
        "Let both machines keep time (chrony, systemd-timesyncd): sessions, tokens and dates of votes depend on it."
    )
    return Check("Clock", "bad" if apart > _MOST_SKEW_SECONDS else "warn", words, remedy)
