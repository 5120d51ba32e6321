# SPDX-License-Identifier: Apache-2.0
"""What can be written."""

from glaive.types.inputs import to_reader

__all__ = ["to_reader"]
