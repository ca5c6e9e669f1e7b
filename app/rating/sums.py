from dataclasses import fields
from typing import Self


class Sums:
    """Sums over annotators; those of two partitions add up field by field."""

    def __add__(self, other: Self) -> Self:
        """Add the sums of two partitions."""
        return type(self)(*(getattr(self, x.name) + getattr(other, x.name) for x in fields(self)))  # type: ignore[arg-type]  # a dataclass
