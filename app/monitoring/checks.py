"""The service's figures as checks: what is well, what is not, and what to do about it.

The console's health page shows them, and `stable-arena doctor` prints them below those of `app.monitoring.doctor`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.monitoring.service import KEY_NOTICE, REFITS_READ, ServiceFigures
from app.snapshots.freshness import is_from_future
from app.wording import count, duration, listed, percent, plural

_PATIENCE = 60.0
"""Seconds that a refit may wait for a worker: a worker looks every few seconds."""
_LATE_MESSAGE = 120.0
"""Seconds that a message may wait: after that, its receiver has failed to take it several times."""
_MOST_FLAGGED = 1 / 3
"""Of the annotators that are rated. Crowds with more bad annotators exist, but a broken filter is likelier."""
_FEW_ANNOTATORS = 10
_MOST_UNCOUNTED = 0.5


STANDINGS = ("active", "trusted", "flagged", "excluded", "pending")


@dataclass(frozen=True)
class Check:
    """One part of the service.

    Attributes
    ----------
    words : its state in a sentence
    remedy : what to do; None where it is well
    address : the page that shows more
    """

    name: str
    tone: Literal["good", "warn", "bad"]
    words: str
    remedy: str | None = None
    address: str | None = None

    @property
    def state(self) -> str:
        """The tone in a word."""
        return {"good": "well", "warn": "look at it", "bad": "act"}[self.tone]


def check_service(figures: ServiceFigures) -> list[Check]:
    """Return the checks, what needs an act first."""
    checks = [
        Check("Database", "good", "It answers, and its tables are those of this version."),
        _worker(figures),
        _last_refit(figures),
        _kernels(figures),
        _leaderboard(figures),
        _parts(figures),
        _annotators(figures),
        _rules(figures),
        _keys(figures),
        _imports(figures),
        _webhooks(figures),
    ]
    return sorted(checks, key=lambda check: ("bad", "warn", "good").index(check.tone))


def database_is_away() -> list[Check]:
    """Return the one check that is left while the database does not give figures."""
    remedy = "Look at the database's own log, its disk and its connections. The page fills itself once it answers."
    return [Check("Database", "bad", "It did not give the service's figures within a few seconds.", remedy)]


def what_became_of_votes(figures: ServiceFigures) -> Iterator[tuple[str, int]]:
    """Yield the votes of the newest leaderboard by what became of them."""
    words = {
        "used": "count",
        "pending": "of annotators with too few votes",
        "excluded": "of excluded annotators",
        "retracted": "retracted",
        "over_quota": "over the daily limit",
        "same_model": "between two names of one model",
    }
    votes = {} if figures.newest is None else figures.newest.votes
    yield from ((words.get(name, name), number) for name, number in votes.items() if number or name == "used")
    yield "not read yet", figures.votes_not_in_board


def _worker(figures: ServiceFigures) -> Check:
    name, address = "Worker", "/console/refits"
    waited = figures.refit_waiting_seconds
    unknown = is_from_future(waited)
    if figures.refits_waiting and (waited > _PATIENCE or unknown) and not figures.refits_running:
        since = "since the clock was ahead" if unknown else f"for {duration(waited)}"
        words = f"A refit has waited {since}, and no worker takes it."
        remedy = "Start stable-arena worker, or stable-arena serve without --no-worker. Look at the worker's log."
        return Check(name, "bad", words, remedy, address)
    if figures.refits_running:
        words = f"A refit has been running for {duration(figures.refit_running_seconds)}."
        return Check(name, "good", words, address=address)
    held = f" {figures.lease.holder} holds the lease." if figures.lease and figures.lease.seconds_left > 0 else ""
    return Check(name, "good", f"No refit waits.{held}", address=address)


def _last_refit(figures: ServiceFigures) -> Check:
    name, address = "Last refit", "/console/refits"
    if figures.last_refit is None:
        return Check(name, "warn", "No refit has run yet.", "Send votes, or import a file, then refit.", address)
    state, ago = figures.last_refit
    words = f"It ended {duration(ago)} ago, as {state.replace('_', ' ')}."
    if state == "failed":
        return Check(name, "bad", words, "Open it: the reason is on its page. Mend it, then refit.", address)
    if state == "needs_review":
        return Check(name, "bad", words, "Open it, look at what it would exclude, and accept or change that.", address)
    return Check(name, "good", words, address=address)


def _kernels(figures: ServiceFigures) -> Check:
    name, (refits, seconds) = "Kernels", figures.compilations
    if not refits:
        return Check(name, "good", f"None of the last {REFITS_READ} refits compiled any.")
    took = "took" if refits == 1 else "together took"
    words = f"{plural(refits, 'refit')} of the last {REFITS_READ} compiled kernels, which {took} {duration(seconds)}."
    remedy = (
        "Run stable-arena compile after each installation, on the machine that refits. The worker must be able to read "
        "what it writes."
    )
    return Check(name, "warn", words, remedy)


def _leaderboard(figures: ServiceFigures) -> Check:
    name, waiting = "Leaderboard", plural(figures.votes_not_in_board, "vote")
    verb = "waits" if figures.votes_not_in_board == 1 else "wait"
    if figures.newest is None:
        late = figures.first_leaderboard_is_late
        remedy = "Refit, and look at how it ends." if late else "The first refit makes it."
        return Check(
            name, "bad" if late else "warn", f"There is none yet; {waiting} {verb}.", remedy, "/console/refits"
        )
    number, age = count(figures.newest.number), figures.newest.age_seconds
    if is_from_future(age):
        words = f"Snapshot {number} is dated {duration(-age)} in the future; {waiting} {verb} for the next."
        remedy = "The database's clock was ahead. Let its machine keep time, then refit."
        return Check(name, "bad", words, remedy, "/console/refits")
    words = f"Snapshot {number} is {duration(max(age, 0.0))} old; {waiting} {verb} for the next."
    if figures.board_is_stale:
        limit = duration(figures.stale_after_seconds)
        remedy = f"The policy allows {limit}. Refit, and look at how it ends; then at the worker."
        return Check(name, "bad", f"It is stale. {words}", remedy, "/console/refits")
    return Check(name, "good", words, address="/")


def _parts(figures: ServiceFigures) -> Check:
    name, newest = "Parts of the snapshot", figures.newest
    if newest is None or not newest.left_out:
        return Check(name, "good", "None is left out because of an error.")
    remedy = (
        "Scores and ranks are whole. Look for part_left_out in the worker's log, and report an unexpected error with "
        "its traceback; the next refit tries again."
    )
    return Check(name, "warn", f"Left out of snapshot {count(newest.number)}: {listed(list(newest.left_out))}.", remedy)


def _annotators(figures: ServiceFigures) -> Check:
    """Whether the filters leave enough annotators: how many are flagged or excluded, and how many votes wait."""
    name, address, standings = "Annotators", "/console/annotators", figures.standings
    dropped = standings.get("flagged", 0) + standings.get("excluded", 0)
    rated = dropped + standings.get("active", 0) + standings.get("trusted", 0)
    parts = [f"{count(standings[word])} {word}" for word in STANDINGS if standings.get(word)]
    words = f"{listed(parts, most=len(STANDINGS))}." if parts else "None has voted yet."
    if rated >= _FEW_ANNOTATORS and dropped > _MOST_FLAGGED * rated:
        remedy = (
            "So many bad annotators are rare. Look at the evidence of some, at how votes are sent, and at the policy's "
            "thresholds, before you exclude any."
        )
        share = percent(dropped / rated)
        return Check(name, "warn", f"{share} of those rated are flagged or excluded. {words}", remedy, address)
    votes = {} if figures.newest is None else figures.newest.votes
    waiting = votes.get("pending", 0) / max(1, sum(votes.values()))
    if waiting > _MOST_UNCOUNTED:
        remedy = "Their votes count once they have more. Or lower min_votes of the policy."
        detail = f"{percent(waiting)} of the votes are of annotators with too few votes. {words}"
        return Check(name, "warn", detail, remedy, "/console/policy")
    return Check(name, "good", words, address=address)


def _keys(figures: ServiceFigures) -> Check:
    name, address = "API keys", "/console/keys"
    if not figures.keys_ending:
        return Check(name, "good", f"None ends within {duration(KEY_NOTICE.total_seconds())}.", address=address)
    ends = [f"{key.name} ({key.prefix}) in {duration(key.seconds_left)}" for key in figures.keys_ending]
    remedy = "Rotate them and give their owners the new ones: stable-arena keys rotate PREFIX."
    return Check(name, "warn", f"These end soon: {listed(ends)}.", remedy, address)


def _rules(figures: ServiceFigures) -> Check:
    name, newest = "Rules that flag", figures.newest
    if newest is None or not newest.alarms:
        return Check(name, "good", "None flags many more annotators than usual.", address="/console/reviews")
    shares = [f"{rule} ({percent(newest.rules[rule][1], 1)} of the votes)" for rule in sorted(newest.alarms)]
    words = f"Many more annotators than usual are flagged by {listed(shares)}."
    remedy = (
        "A broken filter, or a change in how votes are sent, is likelier than so many bad annotators. Look at the "
        "cases before you exclude any."
    )
    return Check(name, "warn", words, remedy, "/console/reviews")


def _imports(figures: ServiceFigures) -> Check:
    waiting = sum(figures.imports.get(state, 0) for state in ("queued", "running"))
    failed = figures.imports.get("failed", 0)
    words = f"{plural(waiting, 'file')} in work, {count(failed)} failed."
    if failed:
        return Check(
            "Imports", "warn", words, "Open those that failed: the reason is on their page.", "/console/imports"
        )
    return Check("Imports", "good", words, address="/console/imports")


def _webhooks(figures: ServiceFigures) -> Check:
    waiting, lost = figures.deliveries.get("waiting", 0), figures.deliveries.get("given_up", 0)
    words = f"{plural(waiting, 'message')} on the way, {count(lost)} given up."
    late = [delay for delay in figures.webhook_delays if delay.seconds > _LATE_MESSAGE]
    if late:
        behind = [f"{delay.receiver} ({delay.webhook}) by {duration(delay.seconds)}" for delay in late]
        words = f"{words} Behind: {listed(behind)}."
    if lost or late:
        remedy = "Look at the answers of the receiver, mend it, and send a test message."
        return Check("Webhooks", "warn", words, remedy, "/console/webhooks")
    return Check("Webhooks", "good", words, address="/console/webhooks")
