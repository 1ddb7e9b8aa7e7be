"""The root of the tree."""

from __future__ import annotations


class SolidObjectsError(Exception):
    """The root of every error that this package raises."""
