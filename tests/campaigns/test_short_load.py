"""The short form of the load campaign, on every database."""

from __future__ import annotations

import pytest
from sqlalchemy import URL

from tests.campaigns.load import run_campaign


@pytest.mark.timeout(180)
def test_load_with_kills(database_url: URL) -> None:
    """Three processes send and call while two are killed: each operation is committed once, in order."""
    report = run_campaign(database_url, operations=240, processes=3, actors=6, kill_every=0.7, kills=2)

    assert report.problems == []
    assert report.kills == 2
    assert report.looks > 0
