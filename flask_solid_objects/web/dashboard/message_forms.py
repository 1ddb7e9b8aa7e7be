"""Forms by which an operator sends a message: a new one, or one that died with other arguments.

What does not fit comes back with the form as it was filled in, and nothing is written.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from flask import Blueprint, abort, request

from flask_solid_objects.errors import IdempotencyConflict, InvalidPayload
from flask_solid_objects.payloads import decode
from flask_solid_objects.store.dead_letters import DeadLetter
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.dashboard.forms import arguments_of, fields_of, filled_in
from flask_solid_objects.web.dashboard.pages import key_of, show
from flask_solid_objects.web.dashboard.redirects import redirect_to

if TYPE_CHECKING:
    from flask_solid_objects.web.dashboard.blueprint import Dashboard

_Answer: TypeAlias = Any


class MessageForms:
    """GET and POST routes of forms with arguments."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    def register(self, blueprint: Blueprint) -> None:
        edit = "/dead-letters/<int(max=9223372036854775807):dead_letter_id>/edit"
        blueprint.add_url_rule("/send", "send_form", self.send_form, methods=["GET"])
        blueprint.add_url_rule("/send", "send", self.send, methods=["POST"])
        blueprint.add_url_rule(edit, "edit_dead_letter", self.edit_dead_letter, methods=["GET"])
        blueprint.add_url_rule(edit, "send_again", self.send_again, methods=["POST"])

    # -- a new message ------------------------------------------------------------------------

    def send_form(self) -> _Answer:
        """The form of one operation, or the choice of one."""
        key, operation = key_of(request.args), request.args.get("operation") or None
        self._dashboard.require("send", "actors", key=key)
        return self._send_page(key, operation, secrets.token_urlsafe(16))

    def send(self) -> _Answer:
        operators, key = self._operators(), key_of(request.values)
        # Before anything is said of types, operations and arguments.
        self._dashboard.require("send", "actors", key=key)
        name, once = request.form.get("operation", ""), request.form.get("once", "")[:64]
        if not once:
            abort(400, "This form does not say which sending it is: reload the page, and try again.")
        operation = operators.messages.operation(key.actor_type, name)
        try:
            message = operators.messages.send(
                key,
                name,
                arguments_of(operation.signature, request.form),
                idempotency_key=f"dashboard:{once}",
                context=self._dashboard.identity(),
            )
        except (InvalidPayload, IdempotencyConflict) as error:
            return self._send_page(key, name, secrets.token_urlsafe(16), problem=error, form=request.form), 422
        self._dashboard.notify(f"It was sent as message {message.id}.")
        return redirect_to("message", message_id=message.id)

    def _send_page(
        self,
        key: ActorKey,
        name: str | None,
        once: str,
        *,
        problem: Exception | None = None,
        form: Mapping[str, str] | None = None,
    ) -> str:
        definition = self._dashboard.runtime().core.registry.get(key.actor_type)
        names = sorted(each.name for each in definition.operations.values() if each.kind == "operation")
        operation = None if name is None else self._operators().messages.operation(key.actor_type, name)
        fields = [] if operation is None else fields_of(operation.signature, {})
        return show(
            "send",
            key=key,
            names=names,
            operation=name,
            fields=fields if form is None else filled_in(fields, form),
            once=once,
            problem=problem,
            polled=False,
        )

    # -- one that died ------------------------------------------------------------------------

    def edit_dead_letter(self, dead_letter_id: int) -> _Answer:
        """The form with the arguments that it died with; what may not be shown has to be given anew."""
        return self._edit_page(self._letter(dead_letter_id))

    def send_again(self, dead_letter_id: int) -> _Answer:
        letter = self._letter(dead_letter_id)
        operation = self._operators().messages.operation(letter.key.actor_type, letter.operation)
        try:
            message = self._operators().retry_dead_letter(
                dead_letter_id,
                arguments=arguments_of(operation.signature, request.form, self._known(letter)[1]),
                context=self._dashboard.identity(),
            )
        except (InvalidPayload, IdempotencyConflict) as error:
            return self._edit_page(letter, problem=error, form=request.form), 422
        self._dashboard.notify(f"It was sent again as message {message.id}.")
        return redirect_to("message", message_id=message.id)

    def _edit_page(
        self, letter: DeadLetter, *, problem: Exception | None = None, form: Mapping[str, str] | None = None
    ) -> str:
        signature = self._operators().messages.operation(letter.key.actor_type, letter.operation).signature
        fields = fields_of(signature, *self._known(letter))
        return show(
            "edit_dead_letter",
            letter=letter,
            fields=fields if form is None else filled_in(fields, form),
            problem=problem,
            polled=False,
        )

    def _known(self, letter: DeadLetter) -> tuple[dict[str, Any], set[str]]:
        """The arguments that may be shown as they are, and the names of all others: a form must not send a mask."""
        shown = self._dashboard.runtime().redaction.arguments(letter.key.actor_type, letter.operation, letter.arguments)
        stored, shown = decode(letter.arguments), shown if isinstance(shown, dict) else {}
        known = {name: value for name, value in stored.items() if name in shown and shown[name] == value}
        return known, set(stored) - set(known)

    def _letter(self, dead_letter_id: int) -> DeadLetter:
        self._dashboard.require("retry", "dead_letters", resource_id=str(dead_letter_id))
        return self._dashboard.runtime().browsing.dead_letter(dead_letter_id, context=self._dashboard.identity())

    def _operators(self) -> Any:
        return self._dashboard.runtime().browser_operators
