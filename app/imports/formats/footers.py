"""Reads the sizes of a Parquet file's row groups from its footer, which polars does not offer.

A footer is a Thrift struct in the compact protocol; the format's `parquet.thrift` has the numbers of the fields.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_FOOTER_BYTES = 32 * 1024**2
BYTES_PER_VALUE = 16
"""Least memory of a value, however small it is in the file: polars uses 16 bytes for the view of a text."""

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_LONG_LIST = 15


class FooterError(ValueError):
    """The footer of a Parquet file is damaged or too large."""


@dataclass(frozen=True)
class RowGroup:
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

    Raises FooterError: the footer is damaged, or has more than `MAX_FOOTER_BYTES`.
    Raises OSError.
    """
    with path.open("rb") as file:
        footer = _Compact(_footer(file))
    try:
        groups = list[RowGroup]()
        for field, kind in footer.fields():
            if (field, kind) == (4, _LIST):
                groups = [_row_group(footer, columns) for _ in footer.structs()]
            else:
                footer.skip(kind)
    except (IndexError, RecursionError):
        raise FooterError("its footer is broken") from None
    return groups


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


def _row_group(footer: "_Compact", columns: Collection[str]) -> RowGroup:
    rows, sizes = 0, list[tuple[int, int]]()
    for field, kind in footer.fields():
        if (field, kind) == (1, _LIST):
            sizes = [_column_size(footer, columns) for _ in footer.structs()]
        elif field == 3 and kind in _INTEGERS:  # noqa: PLR2004  num_rows
            rows = footer.count()
        else:
            footer.skip(kind)
    value_size = max((stored // max(1, values) for values, stored in sizes), default=0)
    return RowGroup(rows, sum(BYTES_PER_VALUE * values + stored for values, stored in sizes), value_size, len(sizes))


def _column_size(footer: "_Compact", columns: Collection[str]) -> tuple[int, int]:
    """Return the values and the uncompressed bytes of a column chunk, 0 where it is not among the columns."""
    size = (0, 0)
    for field, kind in footer.fields():
        if (field, kind) == (3, _STRUCT):  # meta_data
            size = _decoded_size(footer, columns)
        else:
            footer.skip(kind)
    return size


def _decoded_size(footer: "_Compact", columns: Collection[str]) -> tuple[int, int]:
    path, values, stored = list[bytes](), 0, 0
    for field, kind in footer.fields():
        if (field, kind) == (3, _LIST):  # path_in_schema
            path = footer.texts()
        elif field == 5 and kind in _INTEGERS:  # noqa: PLR2004  num_values
            values = footer.count()
        elif field == 6 and kind in _INTEGERS:  # noqa: PLR2004  total_uncompressed_size
            stored = footer.count()
        else:
            footer.skip(kind)
    wanted = path[:1] and path[0].decode(errors="replace") in columns
    return (values, stored) if wanted else (0, 0)


class _Compact:
    """Reads Thrift's compact protocol; the caller reads or skips each field of `fields` before the next.

    Raises IndexError where the content ends too early, FooterError where it is no footer.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and type of each field of a struct; refuse a repeated field, whose meaning is unclear."""
        field, seen = 0, set[int]()
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._integer()
            if field in seen:
                raise FooterError("its footer has a field twice")
            seen.add(field)
            yield field, kind

    def structs(self) -> Iterator[int]:
        """Iterate over a list of structs; the caller reads each before the next."""
        return self._items(_STRUCT)

    def texts(self) -> list[bytes]:
        """Return a list of texts."""
        return [self._binary() for _ in self._items(_BINARY)]

    def count(self) -> int:
        """Return a non-negative integer."""
        number = self._integer()
        if number < 0:
            raise FooterError("its footer has a negative count")
        return number

    def skip(self, kind: int) -> None:
        """Skip a value."""
        if kind in (_TRUE, _FALSE):  # a field's type is its value
            return
        if kind in _INTEGERS:
            self._varint()
        elif kind in (_BYTE, _DOUBLE):
            self._at += 1 if kind == _BYTE else 8
        elif kind == _BINARY:
            self._binary()
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (_LIST, _SET):
            length, inner = self._list()
            self._skip_items(length, (inner,))
        elif kind == _MAP:
            length = self._varint()
            kinds = self._byte() if length else 0
            self._skip_items(length, (kinds >> 4, kinds & 15))
        else:
            raise FooterError("its footer is broken")

    def _skip_items(self, length: int, kinds: tuple[int, ...]) -> None:
        for _ in range(length):
            for kind in kinds:
                self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)
                self._check_end()

    def _items(self, kind: int) -> Iterator[int]:
        length, found = self._list()
        if length and found != kind:
            raise FooterError("its footer is broken")
        return iter(range(length))

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        length = head >> 4
        return (self._varint() if length == _LONG_LIST else length), head & 15

    def _binary(self) -> bytes:
        length = self._varint()
        value = self._content[self._at : self._at + length]
        self._at += length
        self._check_end()
        return value

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

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _check_end(self) -> None:
        if self._at > len(self._content):
            raise IndexError
