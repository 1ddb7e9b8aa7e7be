"""Every test here runs with the invariants checked beside it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def watched(invariants_beside: None) -> None:
    """Nothing else: the checker runs as long as the test."""
