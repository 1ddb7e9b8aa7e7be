"""A simulated payment provider: it charges nothing, but behaves like one.

A card that ends in 0002 is declined, one that ends in 0119 fails at the first try. A repeated charge under one key is
the same charge: the record of each is a file in the instance folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from flask_solid_objects import Rejected


def charge(folder: str, *, card: str, amount_cents: int, key: str) -> str:
    """Charge a card and return the receipt.

    :raises Rejected: the card was declined.
    :raises ConnectionError: the provider could not be reached; trying again may help.
    """
    records = Path(folder) / "payments"
    records.mkdir(parents=True, exist_ok=True)
    record = records / hashlib.sha256(key.encode()).hexdigest()
    if record.exists():
        return record.read_text()
    if card.endswith("0002"):
        raise Rejected("declined", "The card was declined. Try another one.")
    tried = record.with_suffix(".tried")
    if card.endswith("0119") and not tried.exists():
        tried.touch()
        raise ConnectionError("The payment provider did not answer.")
    receipt = f"R-{record.name[:12]}-{amount_cents}"
    record.write_text(receipt)
    return receipt
