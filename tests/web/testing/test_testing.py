"""Drained roles, reminders at a pinned time, and a reset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import URL, Engine, select

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.testing import Testing
from tests.web.testing.shop import ShopUnderTest

# -- drain -------------------------------------------------------------------------------------


def test_drain_runs_everything(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """Reminders, sent messages, effects with their callbacks, messages between actors and broadcasts are run."""
    due_at = cart.remind()
    cart.pay()
    cart.tell(other="b")
    cart.add.send(count=2)
    kit.drain()
    seen, broadcasts = cart.snapshot(), shop.solid.runtime.core.store.tables.broadcasts
    with shop.db.engine.connect() as connection:
        statuses = set(connection.execute(select(broadcasts.c.status)).scalars())

    assert (sorted(["paid 5", f"rang {due_at.isoformat()}"]), 2) == (sorted(seen.log), seen.items)
    assert shop.Cart.ref("b").snapshot().items == 10
    assert {"delivered"} == statuses


def test_drain_counts(kit: Testing, cart: Any) -> None:
    """The count is that of the units: one actor, one effect, and the actor that hears of it."""
    cart.pay.send()

    assert kit.drain() == 3
    assert kit.drain() == 0


def test_drain_leaves_what_is_delayed(kit: Testing, cart: Any) -> None:
    """What is due later is not run."""
    cart.pay(delay=3600.0)
    cart.remind(delay=3600.0)
    cart.add.using(delay=3600.0).send()

    assert kit.drain() == 0


def test_drain_does_not_skip_backoff(slow_shop: ShopUnderTest) -> None:
    """What failed waits for its next attempt."""
    slow_shop.failures.append(RuntimeError("once"))
    slow_shop.Cart.ref("a").fail.send()
    slow_shop.solid.testing.drain()

    assert slow_shop.Cart.ref("a").snapshot().log == []


def test_drain_skips_backoff(slow_shop: ShopUnderTest) -> None:
    """With skip_backoff=True a message that failed is tried again at once."""
    slow_shop.failures += [RuntimeError("once"), RuntimeError("twice")]
    slow_shop.Cart.ref("a").fail.send()
    slow_shop.solid.testing.drain(skip_backoff=True)

    assert slow_shop.Cart.ref("a").snapshot().log == ["went well"]


def test_drain_skips_backoff_of_effects(slow_shop: ShopUnderTest) -> None:
    """With skip_backoff=True an effect that failed is tried again at once."""
    slow_shop.failures += [RuntimeError("once"), RuntimeError("twice")]
    slow_shop.Cart.ref("a").pay()
    slow_shop.solid.testing.drain(skip_backoff=True)

    assert [attempt for _, attempt in slow_shop.charged] == [1, 2, 3]
    assert slow_shop.Cart.ref("a").snapshot().log == ["paid 5"]


def test_drain_skips_no_delay(slow_shop: ShopUnderTest) -> None:
    """skip_backoff=True is about attempts: what was never tried keeps its time."""
    cart = slow_shop.Cart.ref("a")
    cart.add.using(delay=3600.0).send()
    cart.pay(delay=3600.0)

    assert slow_shop.solid.testing.drain(skip_backoff=True) == 0


def test_drain_without_end(kit: Testing, cart: Any) -> None:
    """What causes itself for ever is an error that says what was busy."""
    cart.pay_for_ever()

    with pytest.raises(RuntimeError, match=r"Still busy after 20 passes, at last with: .*effects"):
        kit.drain(passes=20)


def test_drain_in_a_transaction(shop: ShopUnderTest, kit: Testing) -> None:
    """Uncommitted work of db.session is refused at once, not waited for."""
    shop.db.session.add(shop.Note(body="x"))
    shop.db.session.flush()

    with pytest.raises(RuntimeError, match=r"drain\(\) works on a connection of its own"):
        kit.drain()


def test_drain_in_actor_code(cart: Any) -> None:
    """An operation cannot drain."""
    assert "Actor code cannot drain" in cart.drain()


def test_drain_leaves_no_registration(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """Afterwards no role of the drain is registered as running."""
    cart.pay.send()
    kit.drain()
    processes = shop.solid.runtime.core.store.tables.processes
    with shop.db.engine.connect() as connection:
        running = select(processes.c.kind).where(processes.c.shutdown_state != "stopped")
        kinds = list(connection.execute(running).scalars())

    assert "testing" not in kinds


def test_drain_in_memory() -> None:
    """An in-memory database, on which no role starts, is drained in the test's own thread."""
    with ShopUnderTest(URL.create("sqlite", database=":memory:")).ready() as shop:
        shop.Cart.ref("a").pay.send()
        shop.Cart.ref("a").tell(other="b")
        shop.solid.testing.drain()

        assert shop.Cart.ref("a").snapshot().log == ["paid 5"]
        assert shop.Cart.ref("b").snapshot().items == 10
        with pytest.raises(InvalidSettings, match="in memory"):
            shop.solid.runtime.supervisor()


# -- reminders ---------------------------------------------------------------------------------


def test_pinned_reminders(kit: Testing, cart: Any) -> None:
    """What is due at the pinned time rings, and what is due later does not."""
    cart.remind(delay=3600.0)
    now = datetime.now(UTC)

    assert kit.run_due_reminders(now + timedelta(minutes=50)) == 0
    assert kit.run_due_reminders(now + timedelta(minutes=70)) == 1


def test_pinned_reminder_tells_its_time(kit: Testing, cart: Any) -> None:
    """The message of a ring carries the time that it was meant for."""
    due_at = cart.remind(delay=3600.0)
    kit.run_due_reminders(due_at)
    kit.drain()

    assert [f"rang {due_at.isoformat()}"] == cart.snapshot().log


def test_pinned_recurrence(kit: Testing, cart: Any) -> None:
    """What repeats goes on from the pinned time, whatever the database's clock says."""
    first = cart.remind(delay=3600.0, every=3600.0)
    hours = [first + timedelta(hours=hour) for hour in range(3)]
    rung = [kit.run_due_reminders(hour) for hour in hours]
    kit.drain()

    assert rung == [1, 1, 1]
    assert [f"rang {hour.isoformat()}" for hour in hours] == cart.snapshot().log


def test_pinned_reminders_at_most(shop: ShopUnderTest, kit: Testing) -> None:
    """No more ring than were asked for."""
    for number in range(5):
        shop.Cart.ref(f"c{number}").remind(delay=3600.0)
    later = datetime.now(UTC) + timedelta(days=1)

    assert [kit.run_due_reminders(later, most=3) for _ in range(3)] == [3, 2, 0]


@pytest.mark.parametrize(("now", "error"), [("2030-01-01", TypeError), (datetime(2030, 1, 1), ValueError)])
def test_pinned_time_is_a_time(kit: Testing, now: Any, error: type[Exception]) -> None:
    """Only a datetime with a time zone is a time."""
    with pytest.raises(error, match="now must"):
        kit.run_due_reminders(now)


# -- reset -------------------------------------------------------------------------------------


def test_reset_empties_every_table(kit: Testing, cart: Any, tables: Tables, engine: Engine) -> None:
    """No row is left in any table but the version of the tables, whatever there was."""
    cart.remind(every=3600.0)
    cart.pay()
    cart.tell(other="b")
    kit.drain()
    cart.pay.send()
    cart.pay(delay=3600.0)
    kit.reset()
    with engine.connect() as connection:
        left = [table.name for table in tables.all if connection.execute(select(table)).first() is not None]

    assert set(left) <= {tables.version.name}


def test_reset_begins_anew(kit: Testing, cart: Any) -> None:
    """After a reset actors can be used as if nothing had been."""
    cart.add()
    kit.reset()

    assert cart.add() == 1


def test_reset_within_fakes(kit: Testing, cart: Any) -> None:
    """Effects that are emitted after a reset are listed as before."""
    cart.pay()
    with kit.fake_effects() as fake:
        kit.reset()
        cart.pay(cents=8)

        assert [each.arguments for each in fake.emitted] == [{"cents": 8}]


def test_reset_in_a_transaction(shop: ShopUnderTest, kit: Testing) -> None:
    """Uncommitted work of db.session is refused at once."""
    shop.db.session.add(shop.Note(body="x"))

    with pytest.raises(RuntimeError, match=r"reset\(\)"):
        kit.reset()
