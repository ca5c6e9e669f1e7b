"""Stable Arena: votes in, a leaderboard out that stays put."""

__version__ = "0.1.0"
