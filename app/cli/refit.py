"""The command `stable-arena refit`."""

import logging
from typing import Annotated

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.leaderboard import write_leaderboard
from app.cli.logs import log_to_stderr
from app.cli.options import Printed, PrintedOption, check_reason
from app.cli.outputs import print_made
from app.cli.session import open_session
from app.leaderboard.service import read_leaderboard
from app.rating.arrays import finite
from app.rating.cluster import fitting_on_cluster
from app.rating.errors import counted
from app.refits.fit.process import FitResources
from app.refits.reproduce import Reproduction, reproduce
from app.refits.runner import refit_now


def refit(
    accept_exclusions: Annotated[
        bool,
        typer.Option("--accept-exclusions", help="Publish even if more votes are excluded than the policy allows."),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(help="Why the exclusions are accepted; recorded in the audit log."),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(
            "--reproduce",
            metavar="ID",
            help="Publish nothing: fit this snapshot (id or number) again and print how far its numbers differ.",
        ),
    ] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Refit now and print the new leaderboard.

    If a worker is running a refit already, it runs this one next, and the command waits for it. With --reproduce the
    exit code is 1 if the votes or the numbers differ from the published ones; numbers may where a version with another
    method made it.
    """
    log_to_stderr(logging.ERROR)  # the command itself prints how the refit ended
    with open_session(creates=False) as session:
        if snapshot is not None:
            with fitting_on_cluster(session.settings.fit.scheduler):
                made = reproduce(session.database, snapshot)
            _write_reproduction(made, output_format)
            return
        done = refit_now(
            session.database,
            lease_seconds=session.settings.worker.lease_seconds,
            requested_by=COMMAND_LINE,
            resources=FitResources.chosen(session.settings),
            accept_exclusions=accept_exclusions,
            reason=None if reason is None else check_reason(reason),
        )
        with session.database.read() as conn:
            published = read_leaderboard(conn, str(done.snapshot_id))
    write_leaderboard(published, output_format)


def _write_reproduction(made: Reproduction, output_format: Printed) -> None:
    document = {
        "snapshot_id": str(made.snapshot_id),
        "number": made.number,
        "votes": made.votes,
        "same_votes": made.same_votes,
        "code_version": made.code_version,
        "same_method": made.same_method,
        "reproduced": made.reproduced,
        "largest_difference": finite(made.largest_difference),
        "differences": {column: finite(difference) for column, difference in made.differences.items()},
    }
    same = "the votes" if made.same_votes else "other votes than those"
    lines = [f"snapshot {made.number}, fitted again to {counted(made.votes, 'vote')}: {same} it was published with"]
    if not made.same_method:
        lines.append(f"note: version {made.code_version} made it by another method, so its numbers may differ")
    lines.append(f"largest difference: {made.largest_difference:g}")
    lines += [f"  {column}: {difference:g}" for column, difference in made.differences.items() if difference]
    print_made(output_format, document, "\n".join(lines))
    if not made.explained:
        raise typer.Exit(1)
