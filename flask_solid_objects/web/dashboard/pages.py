"""The pages that only look. Whatever they show is read by one bounded read, and every list goes by a cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakKeyDictionary

from flask import Blueprint, abort, current_app, render_template, request

from flask_solid_objects.errors import UnknownActorType
from flask_solid_objects.runtime.references import checked_actor_id
from flask_solid_objects.store.actor_pages import LeaseFilter
from flask_solid_objects.values import Access, ActorKey, ReminderStatus
from flask_solid_objects.web.dashboard.charts import HEIGHT, Throughput
from flask_solid_objects.web.dashboard.redirects import redirect_to

if TYPE_CHECKING:
    from flask_solid_objects.web.dashboard.blueprint import Dashboard

_WAITING = ("pending", "processing")
# What has died, and where its rows are.
_DEAD = {"message": "dead_letters", "effect": "effects", "broadcast": "broadcasts"}


class Pages:
    """GET routes."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._charts: WeakKeyDictionary[Any, list[Throughput]] = WeakKeyDictionary()

    def register(self, blueprint: Blueprint) -> None:
        pages: dict[str, tuple[str, Callable[..., Any]]] = {
            "overview": ("/", self.overview),
            "actors": ("/actors", self.actors),
            "actor": ("/actor", self.actor),
            "message": ("/messages/<int(max=9223372036854775807):message_id>", self.message),
            "mailbox": ("/mailbox", self.mailbox),
            "reminders": ("/reminders", self.reminders),
            "effects": ("/effects", self.effects),
            "broadcasts": ("/broadcasts", self.broadcasts),
            "dead_letters": ("/dead-letters", self.dead_letters),
            "redrives": ("/redrives", self.redrives),
            "redrive_preview": ("/redrives/preview", self.redrive_preview),
            "processes": ("/processes", self.processes),
            "audit": ("/audit", self.audit),
        }
        for name, (rule, view) in pages.items():
            blueprint.add_url_rule(rule, name, view, methods=["GET"])

    # -- pages --------------------------------------------------------------------------------

    def overview(self) -> str:
        browsing, context = self._browsing(), self._dashboard.identity()
        home = browsing.home(context=context)
        charts = [each.chart(lambda edges: browsing.done(edges, context=context)) for each in self._throughput()]
        return self._show("overview", home=home, charts=charts, height=HEIGHT, now=home.overview.now)

    def actors(self) -> str:
        lease = _choice("lease", get_args(LeaseFilter))
        actor_type, prefix = _text("type"), _text("prefix") or ""
        page = self._paged(
            lambda after: self._browsing().actors(
                actor_type=actor_type,
                prefix=prefix,
                lease=lease,
                after=after,
                context=self._dashboard.identity(),
            )
        )
        return self._show(
            "actors",
            page=page,
            types=self._types(),
            actor_type=actor_type,
            prefix=prefix,
            lease=lease,
            leases=get_args(LeaseFilter),
        )

    def actor(self) -> str:
        key = key_of(request.args)
        before = _number("before")
        found = self._browsing().actor(key, before=before, context=self._dashboard.identity())
        return self._show("actor", page=found, key=key, before=before, watch=self._watch(key), now=found.now)

    def message(self, message_id: int) -> str:
        found = self._browsing().message(message_id, context=self._dashboard.identity())
        if found is None:
            abort(404, f"There is no message {message_id}: it was pruned, or its actor was destroyed.")
        return self._show("message", page=found, turn=found.detail.turn, now=found.now)

    def mailbox(self) -> str:
        status = _choice("status", ("ready", "running")) or "ready"
        page = self._paged(
            lambda after: self._browsing().mailbox(
                status,
                after=after,
                context=self._dashboard.identity(),
            )
        )
        return self._show("mailbox", page=page, status=status)

    def reminders(self) -> str:
        status = _choice("status", get_args(ReminderStatus))
        return self._outbox("reminders", "reminders", status, statuses=get_args(ReminderStatus))

    def effects(self) -> str:
        return self._outbox("effects", "effects", _choice("status", _WAITING) or "pending")

    def broadcasts(self) -> str:
        return self._outbox("broadcasts", "broadcasts", _choice("status", _WAITING) or "pending")

    def dead_letters(self) -> str:
        kind = _choice("kind", tuple(_DEAD)) or "message"
        filters = {name: _text(field) for name, field in filters_of(kind).items() if name != "actor_type"}
        status = None if kind == "message" else "dead"
        return self._outbox("dead_letters", _DEAD[kind], status, filters, kind=kind, filters=filters)

    def redrives(self) -> str:
        rows = self._browsing().redrives(context=self._dashboard.identity())
        return self._show("redrives", rows=rows, types=self._types())

    def redrive_preview(self) -> Any:
        """How much a redrive would revive, and the button that starts it."""
        kind = _choice("kind", tuple(_DEAD)) or "message"
        fields = filters_of(kind)
        filters, limit = {name: _text(field) for name, field in fields.items()}, _text("limit")
        given = {fields[name]: value for name, value in filters.items() if value}
        if limit is not None and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:19]) < 2**31):
            self._dashboard.notify("Nothing was counted: at most is a number from 1 on, or left empty.", "problem")
            return redirect_to("dead_letters", kind=kind, **given)
        redrives: Any = self._dashboard.runtime().browser_operators.redrives
        preview = redrives.preview(
            kind, **filters, limit=None if limit is None else int(limit), context=self._dashboard.identity()
        )
        number = preview.count + (1 if preview.is_capped else 0)
        return self._show("redrive_preview", preview=preview, number=number, given=given, limit=limit, polled=False)

    def processes(self) -> str:
        return self._show("processes", rows=self._browsing().processes(context=self._dashboard.identity()))

    def audit(self) -> str:
        page = self._paged(lambda after: self._browsing().audit(before=after, context=self._dashboard.identity()))
        return self._show("audit", page=page)

    # -- parts --------------------------------------------------------------------------------

    def _show(self, name: str, **values: Any) -> str:
        return show(name, **values)

    def _outbox(
        self, name: str, rows: str, status: str | None, more: Mapping[str, str | None] | None = None, **values: Any
    ) -> str:
        actor_type = _text("type")
        page = self._browsing().outbox(
            rows,
            status=status,
            actor_type=actor_type,
            before=_number("before"),
            context=self._dashboard.identity(),
            **(more or {}),
        )
        return self._show(name, page=page, status=status, actor_type=actor_type, types=self._types(), **values)

    def _paged(self, read: Callable[[str | None], Any]) -> Any:
        try:
            return read(_text("after"))
        except ValueError:
            abort(404, "This page begins nowhere: its address is not one of ours.")

    def _browsing(self) -> Any:
        return self._dashboard.runtime().browsing

    def _types(self) -> tuple[str, ...]:
        return self._dashboard.runtime().core.registry.types()

    def _watch(self, key: ActorKey) -> Any:
        """The attribute by which the page hears of this actor's commits; None where it can only poll."""
        watch: Any = current_app.jinja_env.globals.get("solid_watch")
        runtime, viewer = self._dashboard.runtime(), self._dashboard.viewer()
        access = Access(action="subscribe", actor_type=key.actor_type, actor_id=key.actor_id, context=viewer)
        try:
            definition = runtime.core.registry.get(key.actor_type)
        except UnknownActorType:
            return None
        if watch is None or not runtime.core.policies.allows("subscription", access, browser=True):
            return None
        return watch(definition.cls.ref(key.actor_id))

    def _throughput(self) -> list[Throughput]:
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        if app not in self._charts:
            self._charts[app] = [
                Throughput("Last hour", timedelta(minutes=1), 60),
                Throughput("Last day", timedelta(minutes=30), 48),
            ]
        return self._charts[app]


def show(name: str, **values: Any) -> str:
    """Render a page of the dashboard."""
    # Only for ages on pages that read no time of the database.
    values.setdefault("now", datetime.now(UTC))
    return render_template(f"solid_objects/dashboard/{name}.html", here=name, **values)


def filters_of(kind: str) -> dict[str, str]:
    """What chooses among the dead of a kind, and how its fields are called in addresses and forms."""
    return {"actor_type": "type"} | (
        {"operation": "operation", "exception_class": "error"} if kind == "message" else {}
    )


def key_of(values: Any) -> ActorKey:
    """The actor that a request names, in its address, since forms change line breaks.

    :raises InvalidActorId: no actor can have this id.
    """
    if "type" not in values or "id" not in values:
        abort(404, "An actor is named by its type and its id.")
    return ActorKey(actor_type=values["type"], actor_id=checked_actor_id(values["type"], values["id"]))


def _text(name: str) -> str | None:
    return request.args.get(name) or None


def _number(name: str) -> int | None:
    text = request.args.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        abort(404, "This page begins nowhere: its address is not one of ours.")
    return int(text)


def _choice(name: str, known: tuple[str, ...]) -> str | None:
    """One of the known words; any other is as good as none."""
    text = request.args.get(name)
    return text if text in known else None
