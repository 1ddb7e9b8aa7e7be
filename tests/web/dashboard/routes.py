"""Every page and every form of the dashboard, with what the policy is asked for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# What each route asks: action, resource, and resource id or None; {names} are ids of the filled site.
_ACTOR = "Account/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One request of an endpoint, and the question by which it is decided."""

    endpoint: str
    path: str
    action: str
    resource: str
    resource_id: str | None = None
    form: dict[str, str] = field(default_factory=dict)

    def at(self, ids: dict[str, Any]) -> Route:
        """With the ids of a filled site."""
        form = {name: value.format(**ids) for name, value in self.form.items()}
        resource_id = None if self.resource_id is None else self.resource_id.format(**ids)
        return Route(
            endpoint=self.endpoint,
            path=self.path.format(**ids),
            action=self.action,
            resource=self.resource,
            resource_id=resource_id,
            form=form,
        )


def _page(endpoint: str, path: str, action: str, resource: str, resource_id: str | None = None) -> Route:
    return Route(endpoint=endpoint, path=path, action=action, resource=resource, resource_id=resource_id)


def _act(endpoint: str, path: str, action: str, resource: str, resource_id: str | None = None, **form: str) -> Route:
    return Route(endpoint=endpoint, path=path, action=action, resource=resource, resource_id=resource_id, form=form)


PAGES = [
    _page("overview", "/", "index", "dashboard"),
    _page("actors", "/actors", "index", "actors"),
    _page("actor", "/actor?type=Account&id=a", "show", "actors", _ACTOR),
    _page("message", "/messages/{dead_message}", "show", "messages", "{dead_message}"),
    _page("mailbox", "/mailbox", "index", "mailbox"),
    _page("reminders", "/reminders", "inspect", "reminders"),
    _page("effects", "/effects", "inspect", "effects"),
    _page("broadcasts", "/broadcasts", "inspect", "broadcasts"),
    _page("dead_letters", "/dead-letters", "inspect", "dead_letters"),
    _page("dead_letters", "/dead-letters?kind=effect", "inspect", "effect_dead_letters"),
    _page("dead_letters", "/dead-letters?kind=broadcast", "inspect", "broadcast_dead_letters"),
    _page("redrives", "/redrives", "inspect", "redrives"),
    _page("redrive_preview", "/redrives/preview?kind=effect", "preview", "effect_dead_letters"),
    _page("processes", "/processes", "inspect", "processes"),
    _page("audit", "/audit", "index", "audit"),
    _page("metrics", "/metrics", "index", "metrics"),
]
# A form belongs to its act: who may not send it does not get it.
FORMS = [
    _page("send_form", "/send?type=Account&id=a&operation=pay", "send", "actors", _ACTOR),
    _page("edit_dead_letter", "/dead-letters/{dead_letter}/edit", "retry", "dead_letters", "{dead_letter}"),
]
_KEY = {"type": "Account", "id": "a"}
ACTS = [
    _act("act_on_actor", "/actor/pause", "pause", "actors", _ACTOR, **_KEY),
    _act("act_on_actor", "/actor/resume", "resume", "actors", _ACTOR, **_KEY),
    _act("act_on_actor", "/actor/retry-now", "retry_now", "actors", _ACTOR, **_KEY),
    _act("act_on_actor", "/actor/skip", "skip", "actors", "Account/stuck", type="Account", id="stuck"),
    _act("act_on_actor", "/actor/fail", "fail", "actors", "Account/stuck", type="Account", id="stuck"),
    _act("send", "/send", "send", "actors", _ACTOR, operation="pay", once="x1", **_KEY, **{"argument.cents": "1"}),
    _act("retry_dead_letter", "/dead-letters/{dead_letter}/retry", "retry", "dead_letters", "{dead_letter}"),
    _act(
        *("send_again", "/dead-letters/{dead_letter}/edit", "retry", "dead_letters", "{dead_letter}"),
        **{"argument.text": "broken"},
    ),
    _act("retry_effect", "/effects/{effect}/retry", "retry", "effect_dead_letters", "{effect}"),
    _act("retry_broadcast", "/broadcasts/{broadcast}/retry", "retry", "broadcast_dead_letters", "{broadcast}"),
    _act("start_redrive", "/redrives/start", "redrive", "effect_dead_letters", kind="effect"),
    _act("cancel_redrive", "/redrives/x/cancel", "cancel", "redrives", "x"),
    _act("act_on_reminder", "/reminders/{reminder}/pause", "pause", "reminders", "{reminder}"),
    _act("act_on_reminder", "/reminders/{reminder}/resume", "resume", "reminders", "{reminder}"),
    _act("act_on_reminder", "/reminders/{reminder}/run", "run", "reminders", "{reminder}"),
    _act("act_on_reminder", "/reminders/{reminder}/cancel", "cancel", "reminders", "{reminder}"),
    _act("clean_up", "/processes/clean-up", "cleanup", "processes"),
    _act("act_on_actor", "/actor/destroy", "destroy", "actors", _ACTOR, confirmation="a", **_KEY),
]
