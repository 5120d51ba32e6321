# SPDX-License-Identifier: Apache-2.0
"""The least that an installed wheel must do, with pyarrow alone."""

import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import glaive

table = pa.table({"id": range(1000), "name": [f"name {i}" if i % 3 else None for i in range(1000)]})
directory = tempfile.mkdtemp()
try:
    uri = Path(directory) / "smoke.lance"
    glaive.write_dataset(table, uri)
    glaive.write_dataset(table, uri, mode="append")
    ds = glaive.dataset(uri)
    checks = {
        "version": ds.version == 2,
        "rows": ds.count_rows() == 2000,
        "table": ds.to_table() == pa.concat_tables([table, table]).cast(ds.schema),
        "take": ds.take([1999, 0]).column("id").to_pylist() == [999, 0],
    }
finally:
    shutil.rmtree(directory)

failed = [name for name, passed in checks.items() if not passed]
if failed:
    sys.exit(f"smoke test failed: {', '.join(failed)}")
print(f"smoke test of glaive {glaive.__version__}: ok")
