"""The idempotency keys that an actor remembers after their messages are pruned: the last few, oldest dropped first."""

from __future__ import annotations

from typing import Any

from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.settings import Settings
from flask_solid_objects.values import Claim


def remember(claim: Claim, settings: Settings) -> str | None:
    """The actor's list with this message's key at its end, as JSON; None when the message has no key.

    An entry that alone exceeds the limit in bytes is never kept.
    """
    message = claim.message
    if message.idempotency_key is None:
        return None
    entry = {
        "key": message.idempotency_key,
        "operation": message.operation,
        "arguments": decode(message.arguments),
    }
    entries = [known for known in entries_of(claim.state.remembered_keys) if known.get("key") != entry["key"]]
    entries = [*entries, entry][-settings.retained_idempotency_keys :]
    text = encode(entries, path="keys", walk=False)
    while entries and len(text.encode()) > settings.retained_idempotency_keys_bytes:
        entries = entries[1:]
        text = encode(entries, path="keys", walk=False)
    return text


def entries_of(remembered_keys: str | None) -> list[dict[str, Any]]:
    """The remembered entries: key, operation, arguments."""
    entries = decode(remembered_keys) if remembered_keys else []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
