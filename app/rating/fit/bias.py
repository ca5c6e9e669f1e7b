"""The prior of a lean that votes alone tell."""

WIDE = 3.0
