"""Reads the sizes of a Parquet file's row groups from its footer, which polars does not offer.

A footer is a Thrift struct in the compact protocol; the format's `parquet.thrift` has the numbers of the fields.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

MAX_FOOTER_BYTES = 32 * 1024**2
MAX_PARTS = 4 * 1024**2
"""Most items of all lists; row groups and columns that say their size have no room for more."""
BYTES_PER_VALUE = 16
"""Least memory of a value, however small it is in the file: polars uses 16 bytes for the view of a text."""

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_KINDS: Mapping[int, Any] = {**dict.fromkeys(_INTEGERS, int), _BINARY: bytes, _LIST: list, _STRUCT: dict}
_LONG_LIST, _LAST_FIELD = 15, 2**15 - 1

_SIZES: Mapping[int, Any] = {3: [b""], 5: 0, 6: 0}
"""Of a column's metadata: its path, its number of values, and their uncompressed bytes."""
_FOOTER: Mapping[int, Any] = {4: [{1: [{3: _SIZES}], 3: 0}]}
"""The row groups: for each its columns, of each the metadata, and its number of rows."""


class FooterError(ValueError):
    """The footer of a Parquet file is damaged or too large."""


class RowGroup(NamedTuple):
    """Rows that are decoded together.

    Attributes
    ----------
    rows : number of rows.
    size : approximate bytes of the wanted columns once decoded.
    value_size : mean bytes of a value, of that wanted column where it is largest.
    columns : number of columns, those inside others among them.
    """

    rows: int
    size: int
    value_size: int
    columns: int


def read_row_groups(path: Path, columns: Collection[str]) -> list[RowGroup]:
    """Return the row groups in order, with the sizes of these top-level columns.

    Raises FooterError: the footer is damaged, or has more than `MAX_FOOTER_BYTES` or `MAX_PARTS`.
    Raises OSError.
    """
    with path.open("rb") as file:
        footer = _Compact(_footer(file))
    try:
        (groups,) = footer.struct(_FOOTER)
    except (IndexError, RecursionError):
        raise FooterError("its footer is broken") from None
    return [_row_group(columns, *group) for group in groups or ()]


def _footer(file: BinaryIO) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    ending = file.read(8)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != _MAGIC or length > size - 8:
        raise FooterError("it has no footer")
    if length > MAX_FOOTER_BYTES:
        raise FooterError(f"its footer has more than {MAX_FOOTER_BYTES:,} bytes; write it with larger row groups")
    file.seek(size - 8 - length)
    return file.read(length)


def _row_group(wanted: Collection[str], columns: list[Any] | None, rows: int | None) -> RowGroup:
    size = value_size = 0
    for (sizes,) in columns or ():
        path, values, stored = sizes or (None, 0, 0)
        if path and path[0].decode(errors="replace") in wanted:
            size += BYTES_PER_VALUE * (values or 0) + (stored or 0)
            value_size = max(value_size, (stored or 0) // max(1, values or 0))
    return RowGroup(rows or 0, size, value_size, len(columns or ()))


class _Compact:
    """Reads Thrift's compact protocol: what is wanted, in the shape of an example of it, and passes over the rest.

    Raises IndexError where the content ends too early, FooterError where it is no footer.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = self._parts = 0

    def struct(self, wanted: Mapping[int, Any]) -> tuple[Any, ...]:
        """Return the wanted fields by number, None for those that are missing; refuse a field that comes twice."""
        field, found = 0, dict[int, Any]()
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._integer()
            if field in found or abs(field) > _LAST_FIELD:
                raise FooterError(f"its footer has the field {field} twice, or it is none")
            found[field] = self._value(kind, wanted.get(field))
        return tuple(found.get(field) for field in wanted)

    def _value(self, kind: int, wanted: Any = None) -> Any:
        if wanted is not None and _KINDS.get(kind) is not type(wanted):
            raise FooterError("its footer is broken")
        if kind in _INTEGERS:
            number = self._integer()
            if wanted is not None and number < 0:
                raise FooterError("its footer has a negative count")
            return number
        if kind == _STRUCT:
            return self.struct(wanted or {})
        if kind in (_LIST, _SET):
            return self._list(wanted)
        if kind == _MAP:
            length = self._count(self._varint())
            kinds = self._byte() if length else 0
            for _ in range(length):
                self._item(kinds >> 4)
                self._item(kinds & 15)
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            return self._bytes(self._varint() if kind == _BINARY else 1 if kind == _BYTE else 8)
        elif kind not in (_TRUE, _FALSE):  # a field's type is its value
            raise FooterError("its footer is broken")
        return None

    def _list(self, wanted: list[Any] | None) -> list[Any]:
        head = self._byte()
        length = self._count(self._varint() if head >> 4 == _LONG_LIST else head >> 4)
        return [self._item(head & 15, wanted[0] if wanted else None) for _ in range(length)]

    def _count(self, length: int) -> int:
        self._parts += length
        if self._parts > MAX_PARTS:
            raise FooterError(f"its footer has more than {MAX_PARTS:,} parts")
        return length

    def _item(self, kind: int, wanted: Any = None) -> Any:
        return self._value(_BYTE if kind in (_TRUE, _FALSE) else kind, wanted)

    def _bytes(self, length: int) -> bytes:
        self._at += length
        if self._at > len(self._content):
            raise IndexError
        return self._content[self._at - length : self._at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _integer(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004  the highest bit says that more follows
                return value
            shift += 7
            if shift > 63:  # noqa: PLR2004  no integer has more bits than 64
                raise FooterError("its footer is broken")
