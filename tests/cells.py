# SPDX-License-Identifier: Apache-2.0
"""Cells of the matrix: one column each.

A cell is a type, nesting, pattern of nulls, number of rows, version and metadata key. All combinations would
be millions. `product` gives all of type x nesting x nulls x rows x version, and all of type x nesting x
version x key; `pairs` a seeded choice in which every two values of two dimensions that may meet do.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import cache

import numpy as np
import pyarrow as pa

import columns as c

TEXT = pa.string()
NAMES = pa.array([f"name {i}" for i in range(100)])

LEAVES: dict[str, c.Make] = {
    "bool": c.booleans("full"),
    "int8": c.integers(pa.int8(), "negative"),
    "uint16": c.integers(pa.uint16(), "runs"),
    "int32": c.integers(pa.int32(), "small"),
    "int64": c.integers(pa.int64(), "full"),
    "int64 few": c.integers(pa.int64(), "few"),
    "float16": c.floats(pa.float16(), "close"),
    "float64": c.floats(pa.float64(), "close"),
    "decimal": c.decimals(pa.decimal128(20, 2)),
    "date": c.temporal(pa.date32()),
    "timestamp": c.temporal(pa.timestamp("us", "UTC")),
    "string": c.texts(TEXT, "text"),
    "string few": c.texts(TEXT, "few"),
    "string wide": c.texts(TEXT, "wide"),
    "large_string": c.texts(pa.large_string(), "short"),
    "binary": c.texts(pa.binary(), "runs"),
    "large_binary": c.texts(pa.large_binary(), "empty"),
    "binary[3]": c.fixed_binary(3),
    "binary[300]": c.fixed_binary(300),
    "dictionary": c.dictionaries(pa.int8(), NAMES),
    "dictionary numbers": c.dictionaries(pa.uint32(), pa.array(range(50), pa.int64())),
    "null": pa.nulls,
}
VARIABLE = {"string", "string few", "string wide", "large_string", "binary", "large_binary"}
DICTIONARIES = {"dictionary", "dictionary numbers"}

NESTINGS: dict[str, tuple[str, ...]] = {
    "flat": (),
    "struct": ("struct",),
    "struct of struct": ("struct", "struct"),
    "list": ("list",),
    "large_list": ("large_list",),
    **{f"list x {n}": ("list",) * n for n in range(2, 6)},
    "list of struct": ("list", "struct"),
    "struct of list": ("struct", "list"),
    "list of struct of list": ("list", "struct", "list"),
    "vector": ("vector",),
    "vector with holes": ("holes",),
    "wide vector": ("wide",),
    "vector of vectors": ("vector", "vector"),
    "list of vectors": ("list", "holes"),
    "vector of structs": ("vector", "struct"),
    "map": ("map",),
    "map of lists": ("map", "list"),
    "list of maps": ("list", "map"),
    "packed": ("packed",),
}
VECTORS = {"vector": 4, "holes": 3, "wide": 80}

# Shares of nulls in the outermost node, in those between, and in the leaf; share of empty lists.
NULLS: dict[str, tuple[float, float, float, float]] = {
    "none": (0, 0, 0, 0),
    "some": (0, 0, 0.1, 0.1),
    "random": (0.1, 0.1, 0.1, 0.2),
    "empty": (0.05, 0.3, 0, 0.9),
    "all leaves": (0, 0, 1, 0.2),
    "all": (1, 0, 0, 0),
}

# The last one is written in batches, each a page.
PAGED = 9000
ROWS = (0, 1, 1023, 1024, 1025, 4095, 4096, 4097, PAGED)
VERSIONS = ("2.0", "2.1", "2.2")

KEYS: dict[str, dict[str, str]] = {
    "": {},
    "compression none": {"compression": "none"},
    "lz4": {"compression": "lz4"},
    "zstd": {"compression": "zstd"},
    "zstd 9": {"compression": "zstd", "compression-level": "9"},
    "zstd -3": {"compression": "zstd", "compression-level": "-3"},
    "fsst": {"compression": "fsst"},
    "miniblock": {"structural-encoding": "miniblock"},
    "fullzip": {"structural-encoding": "fullzip"},
    "fullzip lz4": {"structural-encoding": "fullzip", "compression": "lz4"},
    "dictionaries always": {"dict-divisor": "1", "dict-size-ratio": "1.0"},
    "dictionaries never": {"dict-divisor": "1000000"},
    "small dictionaries": {"dict-max-size": "64"},
    "plain dictionaries": {"dict-values-compression": "none"},
    "zstd dictionaries": {"dict-values-compression": "zstd", "dict-values-compression-level": "5"},
    "runs always": {"rle-threshold": "1.0"},
    "runs never": {"rle-threshold": "0.0"},
    "bss on": {"bss": "on", "compression": "zstd"},
    "bss off": {"bss": "off"},
    "small chunks": {"minichunk-size": "128"},
    "two values a chunk": {"minichunk-size": "0"},
}


@dataclass(frozen=True)
class Cell:
    """One column."""

    leaf: str
    nesting: str
    nulls: str
    rows: int
    version: str
    key: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return NESTINGS[self.nesting]

    def __str__(self) -> str:
        return ", ".join(map(str, astuple(self)))


DIMENSIONS: dict[str, tuple] = {
    "leaf": tuple(LEAVES),
    "nesting": tuple(NESTINGS),
    "nulls": tuple(NULLS),
    "rows": ROWS,
    "version": VERSIONS,
    "key": tuple(KEYS),
}
assert list(DIMENSIONS) == [field.name for field in fields(Cell)]


def is_legal(cell: Cell) -> bool:
    """Whether the format has a place for the cell."""
    nodes, old = cell.nodes, cell.version == "2.0"
    vector = any(node in VECTORS for node in nodes)
    structs_in_vectors = cell.nesting == "vector of structs"
    if cell.version != "2.2" and ("map" in nodes or structs_in_vectors):
        return False
    # Fixed-size lists hold numbers, or from 2.2 on structs of what has a fixed width too.
    if vector and (cell.leaf in VARIABLE | DICTIONARIES | {"null"} or cell.leaf.startswith("binary")):
        return False
    if "packed" in nodes:
        # Rows of whole bytes, without nulls; strings from 2.2 on.
        narrow = cell.leaf not in {"bool", "null", *DICTIONARIES, "binary[300]"}
        return narrow and cell.nulls == "none" and (cell.leaf not in VARIABLE or cell.version == "2.2")
    # Structs of 2.0 are never null, and what it compresses are strings.
    if old and ("struct" in nodes and cell.nulls in ("random", "empty", "all")):
        return False
    return not (old and cell.key and not cell.key.startswith("compression"))


# --- Values


def make(cell: Cell, rows: int) -> tuple[pa.Field, pa.Array]:
    """The column of a cell, with so many rows."""
    seed = abs(hash_of(cell))
    return _node(cell, 0, rows, np.random.default_rng([seed, rows]), "a")


def hash_of(cell: Cell) -> int:
    """A number that is the same in every process."""
    return int.from_bytes(repr(astuple(cell)).encode()[-40:], "little") % 2**60


def _metadata(cell: Cell, depth: int) -> dict[str, str] | None:
    keys, out = KEYS[cell.key], {}
    if depth == 0 and "structural-encoding" in keys:
        out["structural-encoding"] = keys["structural-encoding"]
    if depth >= sum(node not in VECTORS for node in cell.nodes):
        out |= {key: value for key, value in keys.items() if key != "structural-encoding"}
    if depth == 0 and cell.nesting == "packed":
        out["packed"] = "true"
    return {f"lance-encoding:{key}": value for key, value in out.items()} or None


def _node(
    cell: Cell, depth: int, rows: int, rng: np.random.Generator, name: str
) -> tuple[pa.Field, pa.Array]:
    outer, between, leaf, _ = NULLS[cell.nulls]
    is_leaf = depth == len(cell.nodes)
    share = leaf if is_leaf else outer if depth == 0 else between
    if is_leaf and depth == 0 and outer == 1:
        share = 1
    if depth and cell.nodes[depth - 1] == "vector":
        share = 0
    mask = rng.random(rows) < share
    array = _array(cell, depth, rows, rng)
    field = pa.field(name, array.type, metadata=_metadata(cell, depth))
    if is_leaf:
        return field, c.with_nulls(array, mask)
    return field, _with_nulls(array, mask)


def _with_nulls(array: pa.Array, mask: np.ndarray) -> pa.Array:
    """As `with_nulls` of columns, but keeping the metadata of fields."""
    if not mask.any() or pa.types.is_null(array.type):
        return array
    bitmap = pa.array(~mask).buffers()[1]
    if pa.types.is_fixed_size_list(array.type):
        buffers, children = [bitmap], [array.values]
    elif pa.types.is_struct(array.type):
        buffers, children = [bitmap], [array.field(i) for i in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        names = [array.type.key_field, array.type.item_field]
        entries = pa.StructArray.from_arrays([array.keys, array.items], fields=names)
        buffers, children = [bitmap, array.buffers()[1]], [entries]
    else:
        buffers, children = [bitmap, array.buffers()[1]], [array.values]
    return pa.Array.from_buffers(array.type, len(array), buffers, children=children)


def _array(cell: Cell, depth: int, rows: int, rng: np.random.Generator) -> pa.Array:
    if depth == len(cell.nodes):
        return LEAVES[cell.leaf](rows)
    node = cell.nodes[depth]
    if node in ("struct", "packed"):
        field, child = _node(cell, depth + 1, rows, rng, "x")
        other = c.integers(pa.int32(), "small")(rows)
        sibling = pa.field("y", pa.int32(), nullable=node != "packed")
        field = field.with_nullable(node != "packed")
        return pa.StructArray.from_arrays([child, other], fields=[field, sibling])
    if node in VECTORS:
        size = VECTORS[node]
        field, child = _node(cell, depth + 1, rows * size, rng, "item")
        return pa.FixedSizeListArray.from_arrays(child, type=pa.list_(field, size))
    lengths = np.where(rng.random(rows) < NULLS[cell.nulls][3], 0, rng.choice([1, 1, 2, 3], rows))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    items = int(offsets[-1])
    if node == "map":
        keys = pa.array([f"key {i}" for i in range(items)], pa.string())
        field, child = _node(cell, depth + 1, items, rng, "value")
        kind = pa.map_(pa.field("key", pa.string(), nullable=False), field)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, child, type=kind)
    field, child = _node(cell, depth + 1, items, rng, "item")
    if node == "large_list":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), child, type=pa.large_list(field))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, type=pa.list_(field))


# --- Choices


def product() -> Iterator[Cell]:
    """All cells without keys, and all keys with few rows and nulls."""
    values = [DIMENSIONS[name] for name in ("leaf", "nesting", "nulls", "rows", "version")]
    plain = (Cell(*point, key="") for point in itertools.product(*values))
    values = [DIMENSIONS[name] for name in ("leaf", "nesting")] + [("none", "random"), (1025, 4097), VERSIONS]
    keyed = (Cell(*point, key=key) for point in itertools.product(*values) for key in KEYS if key)
    return filter(is_legal, itertools.chain(plain, keyed))


@cache
def pairs(seed: int = 2013) -> tuple[Cell, ...]:
    """Cells in which every two values of two dimensions meet, if a legal cell has them."""
    draw = random.Random(seed)
    names = list(DIMENSIONS)
    wanted = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x in DIMENSIONS[a]
        for y in DIMENSIONS[b]
    }
    cells: list[Cell] = []
    while wanted:
        (a, x), (b, y) = pair = min(wanted, key=repr)
        tries = (_draw(draw, {a: x, b: y}) for _ in range(400))
        legal = list(itertools.islice(filter(is_legal, tries), 30))
        if not legal:
            wanted.discard(pair)  # no legal cell
            continue
        best = max(legal, key=lambda cell: len(wanted & set(_pairs_of(cell))))
        wanted.difference_update(_pairs_of(best))
        cells.append(best)
    return tuple(cells)


def _draw(draw: random.Random, fixed: dict) -> Cell:
    return Cell(**{name: fixed.get(name, draw.choice(values)) for name, values in DIMENSIONS.items()})


def _pairs_of(cell: Cell) -> Iterator[tuple]:
    values = [(name, getattr(cell, name)) for name in DIMENSIONS]
    return itertools.combinations(values, 2)


def by_table(cells: Iterable[Cell], width: int = 24) -> dict[str, list[Cell]]:
    """Tables of cells that have rows and version in common: a name and at most `width` columns."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        # pylance cannot read columns of several slots a row beside others.
        apart = "-apart" if cell.nesting == "vector of structs" else ""
        groups.setdefault(f"{cell.version}-{cell.rows}{apart}", []).append(cell)
    out = {}
    for name, group in groups.items():
        for number, start in enumerate(range(0, len(group), width)):
            out[f"{name}-{number}"] = group[start : start + width]
    return out
