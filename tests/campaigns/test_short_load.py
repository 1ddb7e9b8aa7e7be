"""The short form of the load campaign, on every database."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.campaigns.judging import complaints
from tests.campaigns.load import run_campaign
from tests.campaigns.outboxes import run_outbox_campaign


@pytest.mark.timeout(180)
def test_load_with_kills(database_url: URL) -> None:
    """Three processes send and call while two are killed: each operation is committed once, in order."""
    report = run_campaign(database_url, operations=300, processes=3, actors=6, kill_every=0.4, kills=2)

    assert report.problems == []
    assert report.kills > 0
    assert report.looks > 0


@pytest.mark.timeout(180)
def test_outboxes_with_kills(database_url: URL, tmp_path: Path) -> None:
    """Two processes run turns that stage one of everything while two are killed: nothing is lost or doubled."""
    report = run_outbox_campaign(
        database_url, tmp_path / "outside.txt", operations=90, processes=2, actors=4, kill_every=0.5, kills=2
    )

    assert report.problems == []
    assert report.kills > 0


def test_complaints_are_noticed() -> None:
    """A role that failed, a locked file and a traceback are problems; what a kill leads to is none."""
    expected = ["issued", "recovery.reclaimed actor=Journal/a message_id=1", "stopped"]
    wrong = ["role.failed role=worker error=OperationalError", "ERROR Traceback", "database is locked"]

    assert complaints([*expected, *wrong]) == wrong
