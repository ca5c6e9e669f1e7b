"""Stable Arena: votes in, a leaderboard out that stays put."""

__version__ = "0.2.0"
