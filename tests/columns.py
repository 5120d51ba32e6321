# SPDX-License-Identifier: Apache-2.0
"""Columns of every type and distribution, and the null patterns that the tests put on them.

Everything is seeded: the same call makes the same column.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa

Make = Callable[[int], pa.Array]

BLOCK = 1500
HUGE = 40 * 1024
WORDS = [
    *(
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "while",
        "seven",
        "wizards",
        "mix",
    ),
    *("vexing", "liquid", "gold;", "Größe,", "naïveté,", "東京", "and", "🦊", "are", "words", "too,", "as"),
    *("any", "reader", "of", "long", "columns", "of", "text", "will", "agree"),
]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([2013, seed])


# --- Null patterns: row count -> mask, True where null


def _one(position: Callable[[int], int]) -> Callable[[int], np.ndarray]:
    def mask(rows: int) -> np.ndarray:
        out = np.zeros(rows, dtype=bool)
        if rows:
            out[position(rows)] = True
        return out

    return mask


NULL_PATTERNS: dict[str, Callable[[int], np.ndarray]] = {
    "none": lambda rows: np.zeros(rows, dtype=bool),
    "first": _one(lambda rows: 0),
    "last": _one(lambda rows: rows - 1),
    "all": lambda rows: np.ones(rows, dtype=bool),
    "every second": lambda rows: np.arange(rows) % 2 == 1,
    "random 10 %": lambda rows: rng(rows).random(rows) < 0.1,
    "blocks": lambda rows: (np.arange(rows) // BLOCK) % 2 == 0,
    # The column is cut out of a longer one: its bitmaps start in the middle of a byte.
    "sliced": lambda rows: rng(rows + 1).random(rows) < 0.3,
}
SLICE_START, SLICE_REST = 3, 5


def column(make: Make, rows: int, pattern: str) -> pa.Array:
    """A column of `rows` rows with the nulls of `pattern`. What lies under a null is not zeroed."""
    if pattern != "sliced":
        return with_nulls(make(rows), NULL_PATTERNS[pattern](rows))
    longer = rows + SLICE_START + SLICE_REST
    return with_nulls(make(longer), NULL_PATTERNS["sliced"](longer)).slice(SLICE_START, rows)


def with_nulls(array: pa.Array, mask: np.ndarray) -> pa.Array:
    if pa.types.is_null(array.type) or not mask.any():
        return array
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, with_nulls(array.storage, mask))
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(with_nulls(array.indices, mask), array.dictionary)
    if pa.types.is_fixed_size_list(array.type):
        values, size = array.values, array.type.list_size
        return pa.FixedSizeListArray.from_arrays(values, size, mask=pa.array(mask))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_map(array.type):
        bitmap = pa.array(~mask).buffers()[1]
        children = [array.values] if not pa.types.is_map(array.type) else [_entries(array)]
        buffers = [bitmap, array.buffers()[1]]
        return pa.Array.from_buffers(array.type, len(array), buffers, children=children)
    if pa.types.is_struct(array.type):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=pa.array(mask))
    bitmap = pa.array(~mask).buffers()[1]
    assert array.offset == 0
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])


def _entries(array: pa.MapArray) -> pa.StructArray:
    names = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=names)


# --- Types


def integers(kind: pa.DataType, spread: str) -> Make:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)

    def make(rows: int) -> pa.Array:
        dtype = kind.to_pandas_dtype()
        random = rng(bits + signed)
        values = {
            "full": lambda: random.integers(low, high, rows, dtype=dtype),
            "small": lambda: random.integers(0, 100, rows, dtype=dtype),
            "negative": lambda: random.integers(-50, 50, rows, dtype=dtype),
            "constant": lambda: np.full(rows, 77, dtype=dtype),
            "runs": lambda: (np.arange(rows) // 300 % 100).astype(dtype),
            "monotone": lambda: np.arange(rows).astype(dtype) + dtype(1),
            "few": lambda: random.choice(np.array([3, 99, 120], dtype=dtype), rows),
            "widths": lambda: (random.integers(0, 127, rows) >> (np.arange(rows) // 1024 % 7)).astype(dtype),
        }[spread]()
        return pa.array(values, kind)

    return make


def floats(kind: pa.DataType, spread: str) -> Make:
    dtype = kind.to_pandas_dtype()

    def make(rows: int) -> pa.Array:
        random = rng(kind.bit_width)
        if spread == "full":
            values = random.standard_normal(rows).astype(dtype)
            special = np.array([np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny], dtype=dtype)
            values[:: max(rows // 7, 1)] = random.choice(special, len(values[:: max(rows // 7, 1)]))
        elif spread == "constant":
            values = np.full(rows, 2.5, dtype=dtype)
        else:  # close together, which byte stream splitting likes
            values = (1000 + np.arange(rows) % 1000 * 0.25).astype(dtype)
        return pa.array(values, kind)

    return make


def booleans(spread: str) -> Make:
    return lambda rows: pa.array(
        rng(1).random(rows) < 0.4 if spread == "full" else np.full(rows, True, dtype=bool)
    )


def decimals(kind: pa.DataType) -> Make:
    digits = kind.precision

    def make(rows: int) -> pa.Array:
        random = rng(digits)
        with decimal.localcontext() as context:
            context.prec = 80
            values = [
                decimal.Decimal(int(sign) * int("".join(map(str, parts)))).scaleb(-kind.scale)
                for sign, parts in zip(
                    random.choice([-1, 1], min(rows, 500)),
                    random.integers(0, 9, (min(rows, 500), digits)),
                    strict=True,
                )
            ]
        pattern = pa.array(values, kind)
        return pattern.take(pa.array(np.arange(rows) % max(len(values), 1))) if rows else pattern

    return make


def temporal(kind: pa.DataType) -> Make:
    """Values of a day for times, of some decades for the rest."""
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    unit = getattr(kind, "unit", "s")
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    if pa.types.is_date32(kind):
        low, high, step = -20_000, 20_000, 1
    elif pa.types.is_date64(kind):
        low, high, step = -20_000, 20_000, 86_400_000
    elif pa.types.is_time(kind):
        low, high, step = 0, 86_400 * per_second, 1
    else:
        low, high, step = -(10**9) * per_second, 2 * 10**9 * per_second, 1

    def make(rows: int) -> pa.Array:
        values = rng(kind.bit_width).integers(low, high, rows) * step
        return pa.array(values, pa.int64()).cast(storage).view(kind)

    return make


def texts(kind: pa.DataType, spread: str) -> Make:
    def value(i: int, random: np.random.Generator) -> str:
        match spread:
            case "short":
                return f"{i:x}"
            case "text":
                return " ".join(random.choice(WORDS, random.integers(0, 20)))
            case "few":
                return ("Delta Air Lines Inc.", "United", "", "AirTran Airways Corporation")[i * 7919 % 4]
            case "constant":
                return "the same"
            case "runs":
                return f"run number {i // 250}"
            case "empty":
                return "" if i % 5 else "x"
            case "wide":
                return f"{i:>300}"
            case "huge":
                return chr(97 + i % 26) * (HUGE if i < 40 else 500)
        raise AssertionError(spread)

    period = {"text": 3000, "huge": 600}.get(spread)

    def make(rows: int) -> pa.Array:
        random = rng(len(spread))
        count = rows if period is None else min(rows, period)
        values = [value(i, random) for i in range(count)]
        if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
            values = [v.encode() for v in values]
        array = pa.array(values, kind)
        if count == rows:
            return array
        # A long column repeats its start; huge values stay few.
        indices = np.arange(rows) % count
        if spread == "huge":
            indices[count:] = 100 + indices[count:] % (count - 100)
        return array.take(pa.array(indices))

    return make


def fixed_binary(width: int, spread: str = "full") -> Make:
    def make(rows: int) -> pa.Array:
        if spread == "constant":
            data = np.full(rows * width, 9, dtype=np.uint8)
        else:
            data = rng(width).integers(0, 256, rows * width, dtype=np.uint8)
        return pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(data.tobytes())])

    return make


def uuids(rows: int) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), fixed_binary(16)(rows))


def structs(rows: int) -> pa.Array:
    children = [
        integers(pa.int32(), "small")(rows),
        with_nulls(texts(pa.string(), "text")(rows), rng(5).random(rows) < 0.2),
        with_nulls(floats(pa.float64(), "close")(rows), np.arange(rows) % 3 == 0),
    ]
    return pa.StructArray.from_arrays(children, ["x", "y", "z"])


def nested_structs(rows: int) -> pa.Array:
    inner = with_nulls(structs(rows), rng(6).random(rows) < 0.15)
    flag = with_nulls(booleans("full")(rows), np.arange(rows) % 4 == 0)
    return pa.StructArray.from_arrays([inner, flag], ["inner", "flag"])


# --- Nested types


def lists(
    items: Make, lengths: Callable[[np.random.Generator, int], np.ndarray], large: bool = False
) -> Make:
    def make(rows: int) -> pa.Array:
        sizes = lengths(rng(rows + 7), rows)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        kind = pa.LargeListArray if large else pa.ListArray
        width = pa.int64() if large else pa.int32()
        return kind.from_arrays(pa.array(offsets, width), items(int(offsets[-1])))

    return make


def some_items(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.choice([0, 0, 1, 1, 2, 3], rows)


def rare_items(random: np.random.Generator, rows: int) -> np.ndarray:
    """Mostly empty lists, some of them longer than a chunk."""
    sizes = np.where(random.random(rows) < 0.01, 40, 0)
    sizes[rows // 2 : rows // 2 + 1] = 5000
    return sizes


def vectors(items: Make, size: int) -> Make:
    return lambda rows: pa.FixedSizeListArray.from_arrays(items(rows * size), size)


def with_holes(make: Make, share: float = 0.2) -> Make:
    return lambda rows: with_nulls(make(rows), rng(8).random(rows) < share)


def fields(**makes: Make) -> Make:
    return lambda rows: pa.StructArray.from_arrays([make(rows) for make in makes.values()], list(makes))


def maps(rows: int) -> pa.Array:
    entries = lists(with_holes(integers(pa.int32(), "small")), some_items)(rows)
    keys = pa.array([f"key {i}" for i in range(len(entries.values))], pa.string())
    return pa.MapArray.from_arrays(entries.offsets, keys, entries.values)


def dictionaries(index: pa.DataType, items: pa.Array) -> Make:
    def make(rows: int) -> pa.Array:
        keys = rng(len(items)).integers(0, len(items), rows)
        return pa.DictionaryArray.from_arrays(pa.array(keys, index), items)

    return make


@cache
def nested_columns(version: str) -> dict[str, Make]:
    """Name -> maker for lists, maps, dictionaries and packed structs."""
    ints, texts_, floats_ = (
        integers(pa.int32(), "small"),
        texts(pa.string(), "short"),
        floats(pa.float32(), "close"),
    )
    names = pa.array([f"name {i}" for i in range(100)])
    out = {
        "list": lists(with_holes(ints), some_items),
        "list rare": lists(ints, rare_items),
        "list of strings": lists(with_holes(texts_), some_items),
        "large_list": lists(with_holes(ints), some_items, large=True),
        "list of list": lists(with_holes(lists(ints, some_items)), some_items),
        "list of struct": lists(with_holes(fields(a=with_holes(ints), b=texts_)), some_items),
        "struct of list": fields(l=with_holes(lists(with_holes(ints), some_items)), x=ints),
        "list of vectors": lists(with_holes(vectors(with_holes(floats_), 4)), some_items),
        "vectors": vectors(floats_, 4),
        "vectors with holes": vectors(with_holes(floats_), 4),
        "wide vectors": vectors(floats_, 80),
        "dictionary int8": dictionaries(pa.int8(), names),
        "dictionary uint8": dictionaries(pa.uint8(), names.cast(pa.large_binary())),
        "dictionary int16": dictionaries(pa.int16(), pa.array(range(1000), pa.int64())),
        "dictionary int32": dictionaries(pa.int32(), pa.array([0.5, -1.0, 2.0])),
        "dictionary with nulls": dictionaries(pa.uint64(), pa.array(["a", None, "", "b"])),
        "list of dictionary": lists(dictionaries(pa.int8(), names), some_items),
        "packed": fields(a=ints, b=integers(pa.int64(), "full"), c=floats_),
    }
    if version != "2.1":
        out |= {
            "map": maps,
            "packed strings": fields(
                a=texts(pa.string(), "text"), b=ints, c=texts(pa.large_binary(), "short")
            ),
        }
    return out


def field_metadata(name: str) -> dict[str, str] | None:
    """What the field of a column must say."""
    return {"lance-encoding:packed": "true"} if name.startswith("packed") else None


@cache
def columns() -> dict[str, Make]:
    """Name -> maker for every type and distribution of the matrix."""
    out: dict[str, Make] = {"null": pa.nulls, "bool": booleans("full"), "bool constant": booleans("constant")}
    for kind in (getattr(pa, f"{u}int{b}")() for u in ("", "u") for b in (8, 16, 32, 64)):
        signed = pa.types.is_signed_integer(kind)
        for spread in ("full", "small", "constant", "runs", "few", "widths"):
            out[f"{kind} {spread}"] = integers(kind, spread)
        if signed:
            out[f"{kind} negative"] = integers(kind, "negative")
        if kind.bit_width >= 32:
            out[f"{kind} monotone"] = integers(kind, "monotone")
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        for spread in ("full", "constant", "close"):
            out[f"{kind} {spread}"] = floats(kind, spread)
    scales = [pa.decimal128(38, 10), pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(20, 20)]
    for kind in [*scales, pa.decimal256(76, 30), pa.decimal256(40, 0), pa.decimal256(50, 50)]:
        out[str(kind)] = decimals(kind)
    units = ("s", "ms", "us", "ns")
    times = [pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    times += [pa.timestamp(unit, zone) for unit in units for zone in (None, "UTC", "America/New_York")]
    times += [pa.duration(unit) for unit in units]
    for kind in times:
        out[str(kind)] = temporal(kind)
    spreads = ("short", "text", "few", "constant", "runs", "empty", "wide", "huge")
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        for spread in spreads:
            out[f"{kind} {spread}"] = texts(kind, spread)
    for width in (1, 3, 16, 300):
        out[f"binary[{width}]"] = fixed_binary(width)
    out["binary[16] constant"] = fixed_binary(16, "constant")
    out |= {"uuid": uuids, "struct": structs, "struct of struct": nested_structs}
    out["string_view"] = lambda rows: texts(pa.string(), "text")(rows).cast(pa.string_view())
    return {name.replace(".", "_"): make for name, make in out.items()}


def comparable(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The form in which columns are compared: floats by their bits, string views as strings."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # older pyarrow, or no chunk at all
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_floating(kind):
        return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width])
    if kind == pa.string_view():
        return array.cast(pa.string())
    if kind == pa.binary_view():
        return array.cast(pa.binary())
    if pa.types.is_dictionary(kind):
        # Keys and unused items may differ.
        return array.cast(kind.value_type)
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return array.cast(pa.list_(kind.value_type.value_type))
    if pa.types.is_struct(kind) and kind.num_fields:
        names = [field.name for field in kind]
        children = [comparable(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    return array


def differences(got: pa.Table, expected: pa.Table) -> list[str]:
    """Names of the columns that differ in type or value; empty when the tables are equal."""
    if got.column_names != expected.column_names:
        return [f"columns {got.column_names} instead of {expected.column_names}"]
    out = []
    for name in expected.column_names:
        left, right = comparable(got.column(name)), comparable(expected.column(name))
        types = got.schema.field(name).type, expected.schema.field(name).type
        if left.type != right.type or pa.types.is_dictionary(types[0]) != pa.types.is_dictionary(types[1]):
            out.append(f"{name}: type {types[0]} instead of {types[1]}")
        elif not left.equals(right):
            out.append(f"{name}: {_first_difference(left, right)}")
    return out


def _first_difference(left: pa.Array, right: pa.Array) -> str:
    if len(left) != len(right):
        return f"{len(left)} rows instead of {len(right)}"
    for i in range(len(left)):
        if not left.slice(i, 1).equals(right.slice(i, 1)):
            return f"row {i}: {str(left[i])[:60]} instead of {str(right[i])[:60]}"
    return "differs"
