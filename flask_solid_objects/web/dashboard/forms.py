"""A form made from an operation's signature: a field for each parameter, and back to the JSON that is sent."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_origin

from flask_solid_objects.actors.signature import Signature
from flask_solid_objects.errors import InvalidArguments

_PREFIX = "argument."


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One parameter; ``text`` fields take their content as it is, all others take JSON."""

    name: str
    kind: Literal["text", "json", "yes or no"]
    annotation: str
    is_required: bool
    is_sensitive: bool
    value: str

    @property
    def input_name(self) -> str:
        return _PREFIX + self.name


def fields_of(signature: Signature, given: Mapping[str, Any]) -> list[FormField]:
    """The fields of an operation, filled with arguments that are known already."""
    return [
        FormField(
            name=name,
            kind=_kind(annotation),
            annotation=inspect.formatannotation(_bare(annotation)),
            is_required=default is inspect.Parameter.empty,
            is_sensitive=name in signature.sensitive,
            value=_text(given[name], _kind(annotation)) if name in given else "",
        )
        for name, _, default, annotation in signature.shape
    ]


def arguments_of(signature: Signature, form: Mapping[str, str]) -> str:
    """The arguments that a form gives, as a JSON object; empty fields are not given.

    :raises InvalidArguments: a field does not hold JSON.
    """
    given: dict[str, Any] = {}
    for field in fields_of(signature, {}):
        text = form.get(field.input_name, "")
        if text == "" and not (field.kind == "text" and field.is_required):
            continue
        if field.kind == "text":
            given[field.name] = text
            continue
        try:
            given[field.name] = json.loads(text)
        except ValueError as error:
            raise InvalidArguments(
                f"arguments.{field.name}", f"{text[:60]!r} is no JSON; write {_EXAMPLES}."
            ) from error
    return json.dumps(given)


def filled_in(fields: Sequence[FormField], form: Mapping[str, str]) -> list[FormField]:
    """The fields with what a form that was sent holds."""
    return [replace(field, value=form.get(field.input_name, "")) for field in fields]


_EXAMPLES = 'numbers as 5, texts as "five", lists as [1, 2], and nothing as null'


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _kind(annotation: Any) -> Literal["text", "json", "yes or no"]:
    bare = _bare(annotation)
    if bare is str:
        return "text"
    return "yes or no" if bare is bool else "json"


def _text(value: Any, kind: str) -> str:
    return value if kind == "text" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)
