"""A refit in words."""

from dataclasses import dataclass
from typing import Literal

from app.refits.schemas import Refit, RefitState

Tone = Literal["", "accent", "good", "warn", "bad"]

_STATES: dict[RefitState, tuple[str, Tone, str]] = {
    "queued": ("waiting", "accent", "A worker takes it in a moment."),
    "reading": ("reading", "accent", "The worker reads the votes."),
    "fitting": ("fitting", "accent", "The worker estimates scores and abilities."),
    "publishing": ("publishing", "accent", "The worker writes the new leaderboard."),
    "done": ("published", "good", "The leaderboard shows its scores."),
    "failed": ("failed", "bad", "The leaderboard stays as it was. The reason is below; mend it, then ask again."),
    "superseded": ("taken over", "", "Another worker took over. The leaderboard shows that worker's refit."),
    "needs_review": ("waits for you", "warn", "It published nothing. Look at what it found, then accept or change."),
    "cancelled": ("cancelled", "", "The leaderboard stays as it was."),
}
TRIGGERS = {
    "schedule": "by the schedule",
    "import": "because an import ended",
    "votes": "because of new votes",
    "request": "by request",
    "command": "from the command line",
}


@dataclass(frozen=True)
class ShownRefit:
    """A refit and what its page says of it.

    Attributes
    ----------
    state, tone, words : its state, how it looks, and what follows
    cause : why it ran
    stages : the seconds of each stage, the longest first
    """

    refit: Refit
    state: str
    tone: Tone
    words: str
    cause: str
    stages: list[tuple[str, float]]

    @property
    def seconds(self) -> float | None:
        """How long it ran; None while it has not ended, or did not begin."""
        refit = self.refit
        if refit.started_at is None or refit.finished_at is None:
            return None
        return (refit.finished_at - refit.started_at).total_seconds()


def show_refit(refit: Refit) -> ShownRefit:
    """Return the refit as its page shows it."""
    state, tone, words = _STATES[refit.state]
    if refit.cancel_requested_at is not None and not refit.ended:
        words = "It is being cancelled. This takes a few seconds."
    stages = sorted(refit.seconds.items(), key=lambda stage: -stage[1])
    return ShownRefit(refit, state, tone, words, TRIGGERS.get(refit.trigger, refit.trigger), stages)
