# SPDX-License-Identifier: Apache-2.0
"""Columns that old versions of pylance and this package read from each other.

    python old_pylance.py write VERSION FILE     writes the columns that this pylance can write to one file
    python old_pylance.py read VERSION DIR       reads DIR/<column>.lance; prints lines
                                                 [column, fault or null]; the last counts

VERSION is the file version. Rows are made without random numbers, so that both sides know them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import sys
import tempfile

import pyarrow as pa

ROWS = 130
EPOCH = dt.datetime(2020, 1, 1)


def mixed(i):
    """A number that looks random."""
    return (i * 2654435761 + 12345) % 1000003


def is_null(pattern, i):
    return {"none": False, "some": mixed(i) % 4 == 0, "all": True, "first": i == 0}[pattern]


def leaves():
    """Name, type, value of a row."""
    yield from (
        (str(t), t, lambda i, b=t.bit_width: mixed(i) % (1 << (b - 1)) - (1 << (b - 2)))
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    )
    yield from (
        (str(t), t, lambda i, b=t.bit_width: mixed(i) % (1 << b))
        for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    )
    yield "narrow", pa.int64(), lambda i: i % 5
    yield "runs", pa.int32(), lambda i: i // 50
    yield "float", pa.float32(), lambda i: i / 4
    yield "double", pa.float64(), lambda i: mixed(i) / 7
    yield "bool", pa.bool_(), lambda i: mixed(i) % 3 == 0
    yield "decimal", pa.decimal128(20, 3), lambda i: decimal.Decimal(mixed(i)) / 1000
    yield "date32", pa.date32(), lambda i: (EPOCH + dt.timedelta(days=i)).date()
    yield "date64", pa.date64(), lambda i: (EPOCH + dt.timedelta(days=i)).date()
    yield "time32", pa.time32("ms"), lambda i: dt.time(i % 24, i % 60, 1, 5000)
    yield "time64", pa.time64("us"), lambda i: dt.time(i % 24, i % 60, 1, 5)
    for unit in ("s", "ms", "us"):
        yield f"timestamp_{unit}", pa.timestamp(unit), lambda i: EPOCH + dt.timedelta(hours=i)
    yield "timestamp_tz", pa.timestamp("us", "UTC"), lambda i: EPOCH + dt.timedelta(hours=i)
    yield "duration", pa.duration("ms"), lambda i: dt.timedelta(milliseconds=mixed(i))
    yield "string", pa.string(), lambda i: f"value {mixed(i)}"
    yield "few", pa.string(), lambda i: f"value {i % 7}"
    yield "empty", pa.string(), lambda _: ""
    yield "unicode", pa.string(), lambda i: "äö€😀" * (i % 3) + str(i)
    yield "long", pa.string(), lambda i: str(i) + "x" * (300 if i % 26 == 0 else 0)
    yield "large_string", pa.large_string(), lambda i: f"value {mixed(i)}"
    yield "binary", pa.binary(), lambda i: bytes([i % 256, 255, 0]) * (i % 4)
    yield "large_binary", pa.large_binary(), lambda i: bytes([i % 256]) * (i % 4)
    yield "fixed_binary", pa.binary(3), lambda i: bytes([i % 256, 1, 2])
    yield "vector", pa.list_(pa.float32(), 4), lambda i: [float(i + k) for k in range(4)]
    yield "matrix", pa.list_(pa.list_(pa.int16(), 2), 2), lambda i: [[i, 1], [2, 3]]


def nested():
    """Name, type, value of a row. Nulls are in the values."""
    item = lambda i: None if is_null("some", i) else mixed(i) % 1000  # noqa: E731
    text = lambda i: None if is_null("some", i + 3) else f"t{i % 11}"  # noqa: E731
    numbers = lambda i: [item(i + k) for k in range(i % 4)]  # noqa: E731
    yield "struct", pa.struct([("a", pa.int32()), ("b", pa.string())]), lambda i: {"a": item(i), "b": text(i)}
    yield "list_int", pa.list_(pa.int32()), numbers
    yield "list_text", pa.list_(pa.string()), lambda i: [text(i + k) for k in range(i % 3)]
    yield "large_list", pa.large_list(pa.int64()), numbers
    yield "list_list", pa.list_(pa.list_(pa.int32())), lambda i: [numbers(i + k) for k in range(i % 3)]
    pair = pa.struct([("x", pa.int32()), ("y", pa.string())])
    yield "list_struct", pa.list_(pair), lambda i: [{"x": item(i + k), "y": text(k)} for k in range(i % 3)]
    yield "struct_list", pa.struct([("v", pa.list_(pa.int32()))]), lambda i: {"v": numbers(i)}
    yield (
        "struct_struct",
        pa.struct([("s", pair), ("n", pa.int8())]),
        lambda i: {"s": {"x": item(i), "y": "y"}, "n": i % 9},
    )
    yield "list_vector", pa.list_(pa.list_(pa.float32(), 2)), lambda i: [[1.0, float(i)]] * (i % 3)
    yield "empty_lists", pa.list_(pa.int32()), lambda _: []
    yield "null_lists", pa.list_(pa.int32()), lambda i: None if is_null("some", i) else numbers(i)
    yield "all_null_lists", pa.list_(pa.int32()), lambda _: None


def columns(version):
    """Names and arrays for a file version."""
    out = {}
    for name, data_type, value in leaves():
        for pattern in ("none", "some", "all", "first"):
            if pattern == "first" and name not in ("int32", "string", "bool"):
                continue
            rows = [None if is_null(pattern, i) else value(i) for i in range(ROWS)]
            out[f"{name}_{pattern}"] = pa.array(rows, data_type)
    out["null"] = pa.nulls(ROWS)
    keys = pa.array([None if is_null("some", i) else i % 3 for i in range(ROWS)], pa.int8())
    out["dictionary"] = pa.DictionaryArray.from_arrays(keys, pa.array(["a", "bb", "ccc"]))
    for name, data_type, value in nested():
        out[name] = pa.array([value(i) for i in range(ROWS)], data_type)
    if version != "2.0":
        data_type = pa.struct([("a", pa.int32()), ("v", pa.list_(pa.string()))])
        rows = [None if is_null("some", i) else {"a": i, "v": ["x"] * (i % 3)} for i in range(ROWS)]
        out["null_structs"] = pa.array(rows, data_type)
    return out


def plain(array):
    """Rows as Python values, whatever the chunks."""
    return array.to_pylist()


def _writer(path, schema, version):
    from lance.file import LanceFileWriter

    try:
        return LanceFileWriter(path, schema, version=version)
    except TypeError:  # before there was a choice
        return LanceFileWriter(path, schema)


def _write(path, table, version):
    with _writer(path, table.schema, version) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def _read(path):
    from lance.file import LanceFileReader

    return LanceFileReader(path).read_all().to_table()


def _can_store(name, array, version, directory):
    path = os.path.join(directory, name + ".lance")
    try:
        _write(path, pa.table({name: array}), version)
        return plain(_read(path).column(0)) == plain(array)
    except BaseException:  # panics of pylance are not exceptions
        return False


def main(action, version, place):
    if action == "write":
        with tempfile.TemporaryDirectory() as directory:
            good = {n: a for n, a in columns(version).items() if _can_store(n, a, version, directory)}
        _write(place, pa.table(good), version)
        print(json.dumps(sorted(set(columns(version)) - set(good))))
        return
    for name, array in columns(version).items():
        path = os.path.join(place, name + ".lance")
        if not os.path.exists(path):
            continue
        print(json.dumps([name, "the process died"]), flush=True)
        try:
            fault = None if plain(_read(path).column(0)) == plain(array) else "other rows"
        except BaseException as error:  # panics of pylance are not exceptions
            fault = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps([name, fault]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
