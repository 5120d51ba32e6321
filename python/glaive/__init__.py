# SPDX-License-Identifier: Apache-2.0
"""An engine for the Lance file and table format, with the API of pylance.

    import glaive

    ds = glaive.write_dataset(table, "flights.lance")
    ds.to_table(columns=["carrier", "dep_delay"])

Everything loads at its first use: ``import glaive`` itself imports neither the native module nor pyarrow.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glaive.blob import Blob, BlobArray, BlobFile, blob_array, blob_field
    from glaive.dataset import LanceDataset, dataset, write_dataset
    from glaive.fragment import DataFile, FragmentMetadata, LanceFragment
    from glaive.scanner import LanceScanner
    from glaive.transaction import DatasetBasePath, LanceOperation, Transaction

    __version__: str

__all__ = [
    "Blob",
    "BlobArray",
    "BlobFile",
    "DataFile",
    "DatasetBasePath",
    "FragmentMetadata",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "Transaction",
    "__version__",
    "blob_array",
    "blob_field",
    "dataset",
    "write_dataset",
]

# Public name -> the module that defines it.
_HOMES = {
    "Blob": "glaive.blob",
    "BlobArray": "glaive.blob",
    "BlobFile": "glaive.blob",
    "DataFile": "glaive.fragment",
    "DatasetBasePath": "glaive.transaction",
    "FragmentMetadata": "glaive.fragment",
    "LanceDataset": "glaive.dataset",
    "LanceFragment": "glaive.fragment",
    "LanceOperation": "glaive.transaction",
    "LanceScanner": "glaive.scanner",
    "Transaction": "glaive.transaction",
    "__version__": "glaive._glaive",
    "blob_array": "glaive.blob",
    "blob_field": "glaive.blob",
    "dataset": "glaive.dataset",
    "write_dataset": "glaive.dataset",
}
_SUBMODULES = frozenset(
    {
        *("bitmap", "blob", "commit", "errors", "file", "fragment", "indices", "progress", "scanner"),
        *("schema", "transaction", "types"),
    }
)


class _Package(ModuleType):
    """The package module: keeps `glaive.dataset` the function although a submodule has the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds every loaded submodule to its parent.
        if name == "dataset" and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"glaive.{name}")
    else:
        raise AttributeError(f"module 'glaive' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


sys.modules[__name__].__class__ = _Package
