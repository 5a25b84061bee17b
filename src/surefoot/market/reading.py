"""Bytes or a table in memory become named columns with row numbers; what cells mean is decided elsewhere.

Files are read by pyarrow. Speed does not decide: of a million bars of OHLCV, every cell kept as text so that each bad
one can be named, it reads CSV in 0.36 s of one core and Polars in 0.36 s, Parquet in 0.05 s and 0.07 s (medians of 18).
But it hands over every row of a wrong width, where Polars fills a short one and stops at a long one, and it takes less
memory (0.46 GB against 0.63 GB for that CSV).
"""

from __future__ import annotations

import csv
import io
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import StorageError
from surefoot.market import fingerprint
from surefoot.market.extra import needed
from surefoot.market.rules import Findings, Rows

MAX_BYTES = 2 << 30
"""Of a file, before and after decompression."""
MAX_ROWS = 50_000_000
DELIMITERS = ",;\t|"
_PURPOSE = "reading prices"


@dataclass(frozen=True)
class Table:
    """Columns as they stand in a source, nothing believed yet."""

    names: list[str]
    columns: list[Any]
    """pyarrow arrays: text out of CSV, typed out of Parquet and data frames."""
    rows: Rows
    """What a reader calls each row: the line of a CSV file, the position from 0 elsewhere."""
    fingerprint: str


def read_file(path: Path, findings: Findings, names: tuple[str, ...] | None = None) -> Table | None:
    """The columns of a file; None if it cannot be read, which `findings` then explain. ``names`` is for a CSV without
    header."""
    data = read_file_bytes(path, findings)
    if data is None:
        return None
    seal = fingerprint.of_bytes(data)
    if not data:
        findings.add("empty", "the file has no bytes")
    elif data[:4] == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(data, seal, findings)
    elif data[:2] == b"\x1f\x8b":
        plain = _decompressed(data, findings)
        return None if plain is None else _csv(plain, seal, findings, names)
    else:
        return _csv(data, seal, findings, names)
    return None


def read_frame(frame: Any, findings: Findings) -> Table | None:
    """The columns of a pandas or Polars data frame, or of a pyarrow table."""
    pa = needed("pyarrow", _PURPOSE)
    library = type(frame).__module__.partition(".")[0]
    try:
        if library == "pandas":
            table = pa.Table.from_pandas(frame)
        else:
            table = frame.to_arrow() if library == "polars" else frame
    except (pa.ArrowException, ValueError, TypeError) as error:
        findings.add("unreadable", f"the data frame has a column of mixed or unknown type ({_first_line(error)})")
        return None
    return _of_arrow(table, fingerprint.of_table(table), findings)


def is_frame(source: object) -> bool:
    """Whether `read_frame` takes it."""
    kind = type(source)
    return (kind.__module__.partition(".")[0], kind.__name__) in {
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("pyarrow", "Table"),
    }


def read_file_bytes(path: Path, findings: Findings) -> bytes | None:
    """All bytes of a regular file, read once: what is fingerprinted is what is parsed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):  # a pipe or device would block or never end
                findings.add("unreadable", "this is not a regular file")
                return None
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StorageError("read", path, error) from error
    if len(data) > MAX_BYTES:
        findings.add("too-large", f"the file has more than {MAX_BYTES >> 30} GiB")
        return None
    return data


def read_csv_bytes(text: bytes, container: bytes, findings: Findings) -> Table | None:
    """The columns of CSV that came out of a container, whose bytes are what is fingerprinted."""
    return _csv(text, fingerprint.of_bytes(container), findings, None)


def _decompressed(data: bytes, findings: Findings) -> bytes | None:
    """The content of a gzip file, never more than the limit."""
    try:
        stream = zlib.decompressobj(wbits=31)
        plain = stream.decompress(data, MAX_BYTES)
    except zlib.error as error:
        findings.add("unreadable", f"broken gzip ({error})")
        return None
    if stream.unconsumed_tail:
        findings.add("too-large", f"the file has more than {MAX_BYTES >> 30} GiB once it is unpacked")
        return None
    if not stream.eof:
        findings.add("unreadable", "the gzip file is truncated")
        return None
    return plain


def _parquet(data: bytes, seal: str, findings: Findings) -> Table | None:
    pa, parquet = needed("pyarrow", _PURPOSE), needed("pyarrow.parquet", _PURPOSE)
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        plain = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        if file.metadata.num_rows > MAX_ROWS or plain > MAX_BYTES:
            findings.add("too-large", f"{file.metadata.num_rows:,} rows, {plain:,} bytes unpacked")
            return None
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        findings.add("unreadable", f"this is no whole Parquet file ({_first_line(error)})")
        return None
    return _of_arrow(table, seal, findings)


def _of_arrow(table: Any, seal: str, findings: Findings) -> Table | None:
    if table.num_rows > MAX_ROWS:
        findings.add("too-large", f"{table.num_rows:,} rows")
    elif table.num_rows == 0:
        findings.add("empty", "there is no row")
    else:
        columns = [column.combine_chunks() for column in table.columns]
        return Table(list(table.column_names), columns, np.arange(table.num_rows), seal)
    return None


def _csv(data: bytes, seal: str, findings: Findings, names: tuple[str, ...] | None) -> Table | None:
    text = _as_utf8(data, findings)
    header = None if text is None else _header(text, findings, names)
    if text is None or header is None:
        return None
    found, delimiter = header
    pa, pyarrow_csv = needed("pyarrow", _PURPOSE), needed("pyarrow.csv", _PURPOSE)
    bad: list[tuple[int, str]] = []

    def keep(row: Any) -> str:
        bad.append((row.actual_columns, row.text))
        return "skip"

    try:
        table = pyarrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=pyarrow_csv.ReadOptions(
                column_names=[str(i) for i in range(len(found))], skip_rows=0 if names else 1, block_size=16 << 20
            ),
            parse_options=pyarrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=keep),
            convert_options=pyarrow_csv.ConvertOptions(
                column_types={str(i): pa.string() for i in range(len(found))}, strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        findings.add("unreadable", f"the file does not read as CSV ({_first_line(error)})")
        return None
    rows = _line_numbers(text, len(found), delimiter, table.num_rows, bad, findings, header=not names)
    if table.num_rows == 0:
        if not bad:
            findings.add("empty", "there is a header and no row below it")
        return None
    if table.num_rows > MAX_ROWS:
        findings.add("too-large", f"{table.num_rows:,} rows")
        return None
    return Table(found, [column.combine_chunks() for column in table.columns], rows, seal)


def _as_utf8(data: bytes, findings: Findings) -> bytes | None:
    """Without a byte-order mark, which says nothing in UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        findings.add("encoding", "the file is UTF-16")
        return None
    data = data.removeprefix(b"\xef\xbb\xbf")
    zero = data.find(b"\0")
    if zero >= 0:
        findings.add("encoding", "a zero byte, so this is no text", row=data.count(b"\n", 0, zero) + 1)
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        findings.add("encoding", f"byte 0x{data[error.start]:02x} is not UTF-8", row=line)
        return None
    return data


def _header(text: bytes, findings: Findings, names: tuple[str, ...] | None) -> tuple[list[str], str] | None:
    """Names of the columns and the delimiter."""
    lines = [line for line in text[: 1 << 16].decode("utf-8", "ignore").splitlines()[:50] if line.strip()]
    if not lines:
        findings.add("empty", "the file has only blank lines")
        return None
    counts = {mark: lines[0].count(mark) for mark in DELIMITERS}
    delimiter = max(counts, key=lambda mark: counts[mark])
    if counts[delimiter] == 0:
        later = max((line.count(mark) for line in lines[1:3] for mark in DELIMITERS), default=0)
        if later:
            findings.add("preamble", f"line 1 is {lines[0][:60]!r}, which is no header of the lines below", row=1)
        else:
            findings.add("wrong-delimiter", f"the first line is one column: {lines[0][:60]!r}", row=1)
        return None
    cells = [cell.strip() for cell in next(csv.reader(io.StringIO(lines[0]), delimiter=delimiter))]
    if names is not None:
        if len(names) != len(cells):
            findings.add(
                "unknown-column", f"columns= names {len(names)} columns, the first line has {len(cells)}", row=1
            )
            return None
        return list(names), delimiter
    if any(_is_number(cell) for cell in cells):
        findings.add("no-header", f"the first line is data: {lines[0][:60]!r}", row=1)
        return None
    return cells, delimiter


def _line_numbers(
    text: bytes, width: int, delimiter: str, kept: int, bad: list[tuple[int, str]], findings: Findings, header: bool
) -> Rows:
    """The line of each row that was read; rows of another width become findings."""
    first = 1 + header
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    if not bad and kept == lines - header:
        return np.arange(first, first + kept)
    numbers, wrong, counted = [], [], []
    for number, line in enumerate(text.decode().split("\n"), 1):
        if number < first or not line.strip("\r"):
            continue
        cells = line.count(delimiter) + 1
        if '"' in line:
            cells = len(next(csv.reader(io.StringIO(line), delimiter=delimiter), []))
        if cells == width:
            numbers.append(number)
        else:
            wrong.append(number)
            counted.append(cells)
    findings.add_rows(
        "ragged-row",
        np.array(wrong, dtype=np.int64),
        None,
        lambda i: f"{counted[i]} cells where the header has {width}",
    )
    if len(numbers) != kept:  # a line break inside quotes: positions are the best that can be said
        return np.arange(first, first + kept)
    return np.array(numbers, dtype=np.int64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
