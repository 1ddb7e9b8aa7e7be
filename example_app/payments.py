"""A SIMULATION of a payment provider: no money moves. It keeps its charges as files in the instance folder.

Like a real one it is given a token that stands for a card, recognises a repeated charge by its key, and can take a
charge back. Some of its cards do not work, so that one can see what happens then.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from flask_solid_objects import Rejected

CARDS = {
    "works": "A card that works",
    "declined": "A card that is declined",
    "slow": "A card whose bank answers at the second try",
    "silent": "A card whose bank takes the money and never answers",
}


@dataclass(frozen=True)
class Charge:
    """What the provider knows of one charge."""

    receipt: str
    cents: int
    is_void: bool = False


def charge(folder: str, *, card: str, cents: int, key: str, attempt: int = 1) -> str:
    """Charge a card and return the receipt; the same key is the same charge.

    :raises Rejected: the card was declined, or the charge was taken back before.
    :raises ConnectionError: nobody knows whether it was charged; trying again under the same key may tell.
    """
    if card not in CARDS or card == "declined":
        raise Rejected("declined", "The card was declined. Try another one.")
    if card == "slow" and attempt == 1:
        raise ConnectionError("The bank did not answer.")
    path = _path(folder, key)
    known = _read(path) if path.exists() else Charge(receipt=f"R-{path.stem[:10].upper()}", cents=cents)
    if known.is_void:
        raise Rejected("void", "The payment was taken back.")
    _write(path, known)
    if card == "silent":
        raise ConnectionError("The bank did not answer.")
    return known.receipt


def void(folder: str, *, key: str) -> None:
    """Take a charge back, if there was one, and refuse it from now on."""
    path = _path(folder, key)
    known = _read(path) if path.exists() else Charge(receipt="", cents=0)
    _write(path, Charge(known.receipt, known.cents, is_void=True))


def charges(folder: str) -> list[Charge]:
    """Every charge that there ever was."""
    return [_read(path) for path in sorted((Path(folder) / "payments").glob("*.json"))]


def _path(folder: str, key: str) -> Path:
    return Path(folder) / "payments" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _read(path: Path) -> Charge:
    return Charge(**json.loads(path.read_text()))


def _write(path: Path, known: Charge) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that dies while it writes must not leave half a charge.
    new = path.with_suffix(f".{secrets.token_hex(4)}")
    new.write_text(json.dumps(asdict(known)))
    new.replace(path)
