"""A leaderboard from a folder of Parquet files, which only the workers of a cluster read."""

import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from app.cli.inputs import PeopleFileOptions
from app.cli.rate.offline import echo_fit
from app.cli.rate.options import FitOptions
from app.errors import BadInputError
from app.imports.formats.joining import look_alike_warnings
from app.rating.cluster import fitting_on_cluster
from app.rating.estimators.folder import rate_folder


def rate_votes_in(
    folder: Path, options: FitOptions, read: PeopleFileOptions, *, annotators: str, stage: Callable[[str], None]
) -> dict[str, Any]:
    """Rate the votes in a folder; returns what `rate_votes` does, with the number of annotators of each standing.

    `annotators`: whether they are wanted, "rows" or "table" (one by one, of which there may be millions), or not: "".
    Raises BadInputError: an option is not for a folder.
    Raises app.rating.errors.RatingError: as `rate_folder`.
    """
    _refuse(options, read)
    started = time.perf_counter()
    stage("reading and rating")
    with fitting_on_cluster(options.scheduler):
        found = rate_folder(folder, options.loop, options.anchored, annotators=bool(annotators))
    diagnostics = {each.name: getattr(found.diagnostics, each.name) for each in fields(found.diagnostics)}
    stages = found.diagnostics.seconds
    diagnostics["seconds"] = {"read": time.perf_counter() - started - sum(stages.values()), **stages}
    warnings = [notice.named(list(found.votes)) for notice in found.diagnostics.warnings]
    diagnostics["warnings"] = [*warnings, *look_alike_warnings(found.votes)]
    per, frame = {name: asdict(each) for name, each in found.per.items()}, found.annotators
    rows: Any = []
    if frame is not None:
        rows = frame.to_dicts() if annotators == "table" else frame.iter_rows(named=True)
    return {
        "method": options.method,
        "settings": {**echo_fit(options), "interval": diagnostics.pop("interval")},
        "votes": {
            "read": found.read, "used": found.used, "rejected": 0, "skipped": 0, "duplicates": 0, "per": per,
            "rankings": 0, "votes_used": found.used, "pairs_read": found.read, "votes_per_annotator": per["annotator"],
        },
        "models": found.models,
        "annotators": rows,
        "standings": found.standings,
        "diagnostics": diagnostics,
    }  # fmt: skip


def _refuse(options: FitOptions, read: PeopleFileOptions) -> None:
    plain = options.method != "am-elo" or options.loop.prior_sd is None
    if plain or options.features or options.by or options.inverse_propensity:
        detail = "a folder is for am-elo with a prior, without --style, --by and --inverse-propensity: give its files"
        raise BadInputError(detail)
    if options.interval not in ("clustered", "none"):
        raise BadInputError(f"a folder needs --interval clustered or none, not {options.interval}: else give its files")
    unchanged = type(read)()
    if changed := [one.name for one in fields(read) if getattr(read, one.name) != getattr(unchanged, one.name)]:
        raise BadInputError(f"a folder is read as it is: leave out --{changed[0].replace('_', '-')}, or give its files")
