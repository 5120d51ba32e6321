# SPDX-License-Identifier: Apache-2.0
"""The typed stub of the native module says what the module has, and the package says what it exports."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import glaive
from glaive import _glaive

STUB = ast.parse((Path(glaive.__file__).parent / "_glaive.pyi").read_text())
MODULES = [
    "",
    *(f".{m}" for m in ("blob", "commit", "dataset", "errors", "file", "fragment", "progress", "schema")),
]


def stub_members(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    named: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            named[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            named[node.target.id] = node
    return named


def public(value: Any) -> set[str]:
    return {name for name in vars(value) if not name.startswith("_")}


def stub_parameters(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """Names, and whether there is a default."""
    positional = [*node.args.posonlyargs, *node.args.args]
    optional = [False] * (len(positional) - len(node.args.defaults)) + [True] * len(node.args.defaults)
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return [
        *((argument.arg, has) for argument, has in zip(positional, optional, strict=True)),
        *((argument.arg, default is not None) for argument, default in keywords),
    ]


def parameters(value: Any) -> list[tuple[str, bool]]:
    found = inspect.signature(value).parameters.values()
    return [(p.name, p.default is not p.empty) for p in found]


def test_module() -> None:
    stub = {name for name in stub_members(STUB.body) if not name.startswith("_")}
    assert public(_glaive) == stub


CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_classes(node: ast.ClassDef) -> None:
    cls, members = getattr(_glaive, node.name), stub_members(node.body)
    assert public(cls) == {name for name in members if not name.startswith("_")}
    for name, member in members.items():
        value = inspect.getattr_static(cls, name)
        if isinstance(member, ast.FunctionDef) and not member.decorator_list and name != "__new__":
            assert stub_parameters(member) == parameters(value), name
    if "__new__" in members:
        assert stub_parameters(members["__new__"])[1:] == parameters(cls)


def test_functions() -> None:
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            assert stub_parameters(node) == parameters(getattr(_glaive, node.name)), node.name


@pytest.mark.parametrize("name", MODULES)
def test_exports_exist(name: str) -> None:
    module = importlib.import_module(f"glaive{name}")
    assert [n for n in module.__all__ if not hasattr(module, n)] == []
    assert set(module.__all__) <= set(dir(module))


def test_typed_marker() -> None:
    assert (Path(glaive.__file__).parent / "py.typed").exists()
