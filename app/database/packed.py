"""Columns of numbers and ids as PostgreSQL's binary arrays, packed whole.

The driver looks at every element of a list twice, once for its type and once to send it: for a thousand votes that
took longer than to check them.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_INT2, _INT4, _UUID = 21, 23, 2950
_LENGTH_OF_UUID = (16).to_bytes(4)
_NULL = b"\xff\xff\xff\xff"  # a length of -1


class _Packed(bytes):
    """An array in the form in which it is sent."""


class SmallIntegers(_Packed):
    """A `smallint[]`."""


class Integers(_Packed):
    """An `integer[]`."""


class Ids(_Packed):
    """A `uuid[]`."""


def small_integers(numbers: Sequence[int]) -> SmallIntegers:
    """Return numbers as an array for a statement's `%b`; there must be one at least, as of all columns here."""
    return SmallIntegers(_head(_INT2, len(numbers)) + _elements(numbers, ">i2"))


def integers(numbers: Sequence[int]) -> Integers:
    """Return numbers as an array."""
    return Integers(_head(_INT4, len(numbers)) + _elements(numbers, ">i4"))


def ids(values: Sequence[UUID | None]) -> Ids:
    """Return ids, some of which may be missing, as an array."""
    elements = [_NULL if value is None else _LENGTH_OF_UUID + value.bytes for value in values]
    return Ids(_head(_UUID, len(values)) + b"".join(elements))


def _head(kind: int, count: int) -> bytes:
    """Return what stands before the elements: dimensions, nulls (the server looks), type, length, first index."""
    return np.array([1, 0, kind, count, 1], ">i4").tobytes()


def _elements(numbers: Sequence[int], kind: str) -> bytes:
    elements = np.empty(len(numbers), [("length", ">i4"), ("number", kind)])
    elements["length"] = elements.dtype["number"].itemsize
    elements["number"] = numbers
    return elements.tobytes()


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Packed) -> bytes:
        return obj


def _register(kind: type[_Packed], array_oid: int) -> None:
    psycopg.adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": array_oid}))


_register(SmallIntegers, 1005)
_register(Integers, 1007)
_register(Ids, 2951)
