# SPDX-License-Identifier: Apache-2.0
"""Prints the requirements of one extra of pyproject.toml, with the extras that it names, one a line."""

import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def requirements(extra: str) -> list[str]:
    """The requirements of `extra` and the project's own, nested extras resolved."""
    found = list(PROJECT["dependencies"])
    for line in PROJECT["optional-dependencies"][extra]:
        if line.startswith("glaive["):
            found += requirements(line.removeprefix("glaive[").removesuffix("]"))
        else:
            found.append(line)
    return found


print("\n".join(dict.fromkeys(requirements(sys.argv[1]))))
