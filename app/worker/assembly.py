"""How the settings become a worker, for `serve` and `worker` alike."""

from datetime import timedelta

from app.database.engine import Database
from app.refits.fit.process import FitLimits
from app.settings import Settings
from app.snapshots.retention.service import Retention
from app.worker.file_jobs import FileJobs
from app.worker.worker import Worker


def fit_limits(settings: Settings) -> FitLimits:
    """Return what any fit may take, whoever asks for it."""
    return FitLimits(settings.worker.fit_seconds, settings.worker.fit_memory_bytes)


def build_worker(database: Database, settings: Settings) -> Worker:
    """Assemble what runs refits, imports and exports, tells webhooks and prunes old snapshots."""
    worker, retention = settings.worker, settings.retention
    file_jobs = FileJobs(
        database,
        lease_seconds=worker.lease_seconds,
        max_expanded_bytes=settings.imports.max_expanded_bytes,
        keep_days=settings.exports.keep_days,
    )
    return Worker(
        database,
        tick_seconds=worker.tick_seconds,
        lease_seconds=worker.lease_seconds,
        limits=fit_limits(settings),
        file_jobs=file_jobs,
        private_webhooks=settings.webhooks.allow_private_addresses,
        retention=Retention(timedelta(days=retention.whole_days), timedelta(days=retention.daily_days)),
    )
