"""The forms of the dashboard: each is one POST that asks the policy once, is audited, and may be pressed twice.

What could meet another thing by the time it arrives says what it means: skip and fail name their message, destroying
repeats the id of the actor, and a retry is keyed by its dead letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from flask_solid_objects.errors import SolidObjectsError
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.dashboard.pages import filters_of, key_of
from flask_solid_objects.web.dashboard.redirects import redirect_to

if TYPE_CHECKING:
    from flask_solid_objects.web.dashboard.blueprint import Dashboard

_REMINDER = {
    "pause": "It rings no more until it is resumed.",
    "resume": "It rings again.",
    "run": "It rings now.",
    "cancel": "It is cancelled.",
}


class Acts:
    """POST routes."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    def register(self, blueprint: Blueprint) -> None:
        acts: dict[str, tuple[str, Callable[..., Any]]] = {
            "act_on_actor": ("/actor/<any(pause, resume, 'retry-now', skip, fail, destroy):act>", self.on_actor),
            "retry_dead_letter": (
                "/dead-letters/<int(max=9223372036854775807):dead_letter_id>/retry",
                self.retry_dead_letter,
            ),
            "retry_effect": ("/effects/<effect_id>/retry", self.retry_effect),
            "retry_broadcast": ("/broadcasts/<broadcast_id>/retry", self.retry_broadcast),
            "start_redrive": ("/redrives/start", self.start_redrive),
            "cancel_redrive": ("/redrives/<redrive_id>/cancel", self.cancel_redrive),
            "act_on_reminder": (
                "/reminders/<int(max=9223372036854775807):reminder_id>/<any(pause, resume, run, cancel):act>",
                self.on_reminder,
            ),
            "clean_up": ("/processes/clean-up", self.clean_up),
        }
        for name, (rule, view) in acts.items():
            blueprint.add_url_rule(rule, name, view, methods=["POST"])

    def on_actor(self, act: str) -> Response:
        key, context, operators = key_of(request.values), self._dashboard.identity(), self._operators()
        if act == "destroy":
            return self._destroy(key)
        if act in ("skip", "fail"):
            end = operators.skip if act == "skip" else operators.fail
            message_id = end(key, message_id=_number("message_id"), context=context)
            done = {"skip": "was skipped", "fail": "is a dead letter now"}[act]
            self._tell(
                f"Message {message_id} {done}." if message_id else "Another message is at the head by now: look again."
            )
        else:
            verb = {"pause": operators.pause, "resume": operators.resume, "retry-now": operators.retry_now}[act]
            changed = verb(key, context=context)
            texts = {
                "pause": ("It starts no more turns until it is resumed.", "It was paused already."),
                "resume": ("It goes on.", "It was not paused."),
                "retry-now": ("It is tried again now.", "Nothing waited for a retry."),
            }
            self._tell(texts[act][0 if changed else 1])
        return redirect_to("actor", type=key.actor_type, id=key.actor_id)

    def _destroy(self, key: ActorKey) -> Response:
        if request.form.get("confirmation") != key.actor_id:
            self._tell("Nothing was destroyed: type the id of the actor exactly to confirm it.", "problem")
            return redirect_to("actor", type=key.actor_type, id=key.actor_id)
        destroyed = self._operators().destroy(key, context=self._dashboard.identity())
        self._tell(f"{key} is destroyed." if destroyed else f"{key} was gone already.")
        return redirect_to("actors", type=key.actor_type)

    def retry_dead_letter(self, dead_letter_id: int) -> Response:
        message = self._operators().retry_dead_letter(dead_letter_id, context=self._dashboard.identity())
        self._tell(f"It was sent again as message {message.id}.")
        return redirect_to("message", message_id=message.id)

    def retry_effect(self, effect_id: str) -> Response:
        row = self._operators().effects.retry(effect_id, context=self._dashboard.identity())
        self._tell(f"Effect {row.name} is {row.status}.")
        return redirect_to("dead_letters", kind="effect")

    def retry_broadcast(self, broadcast_id: str) -> Response:
        row = self._operators().broadcasts.retry(broadcast_id, context=self._dashboard.identity())
        self._tell(f"The broadcast of {row.observable} is {row.status}.")
        return redirect_to("dead_letters", kind="broadcast")

    def start_redrive(self) -> Response:
        kind = request.form.get("kind", "")
        try:
            redrive = self._operators().redrives.start(
                kind,
                **{name: request.form.get(field) or None for name, field in filters_of(kind).items()},
                limit=_number("limit"),
                context=self._dashboard.identity(),
            )
        except ValueError as error:
            if isinstance(error, SolidObjectsError):
                raise
            self._tell(str(error), "problem")
        else:
            self._tell(f"Redrive {redrive.id} is {redrive.status}; {redrive.remaining} are left.")
        return redirect_to("redrives")

    def cancel_redrive(self, redrive_id: str) -> Response:
        redrive = self._operators().redrives.cancel(redrive_id, context=self._dashboard.identity())
        self._tell(f"Redrive {redrive.id} is {redrive.status}; it has revived {redrive.moved}.")
        return redirect_to("redrives")

    def on_reminder(self, reminder_id: int, act: str) -> Response:
        reminders, context = self._operators().reminders, self._dashboard.identity()
        if act == "run":
            message = reminders.run_now(reminder_id, context=context)
            self._tell(f"It rings now, as message {message.id}.")
            return redirect_to("message", message_id=message.id)
        verb = {"pause": reminders.pause, "resume": reminders.resume, "cancel": reminders.cancel}[act]
        changed = verb(reminder_id, context=context)
        self._tell("It was so already." if changed is False else _REMINDER[act])
        return redirect_to("reminders")

    def clean_up(self) -> Response:
        cleaned = self._operators().clean_up(context=self._dashboard.identity())
        self._tell(f"What {cleaned} dead processes held is free.")
        return redirect_to("processes")

    def _operators(self) -> Any:
        return self._dashboard.runtime().browser_operators

    def _tell(self, text: str, kind: str = "done") -> None:
        self._dashboard.notify(text, kind)


def _number(name: str) -> int | None:
    text = request.form.get(name) or None
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        abort(400, f"{name} is a number.")
    return int(text)
