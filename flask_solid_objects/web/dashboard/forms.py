"""A form made from an operation's signature: a field for each parameter, and back to the JSON that is sent."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from flask_solid_objects.actors.signature import Signature
from flask_solid_objects.errors import InvalidArguments, InvalidPayload
from flask_solid_objects.payloads import decode_as, encode

PREFIX = "argument."
_QUOTED = "quoted."

_Kind: TypeAlias = Literal["text", "json", "yes or no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One parameter; ``text`` fields take their content as it is, all others take JSON.

    A field that ``is_hidden`` was given, and must be given anew since nobody may see what it was.
    """

    name: str
    kind: _Kind
    annotation: str
    is_required: bool
    is_sensitive: bool
    is_hidden: bool
    # A text that a plain field would change, such as an empty one, is edited as JSON.
    is_quoted: bool
    value: str

    @property
    def input_name(self) -> str:
        return PREFIX + self.name

    @property
    def quoted_name(self) -> str:
        return _QUOTED + self.name


def fields_of(signature: Signature, given: Mapping[str, Any], hidden: Collection[str] = ()) -> list[FormField]:
    """The fields of an operation, filled with arguments that are known already."""
    return [
        _field(parameter, given, is_sensitive=parameter[0] in signature.sensitive, is_hidden=parameter[0] in hidden)
        for parameter in signature.shape
    ]


def arguments_of(signature: Signature, form: Mapping[str, str], hidden: Collection[str] = ()) -> str:
    """The arguments that a form gives, as a JSON object; empty fields are not given.

    :param hidden: those that have to be given anew.
    :raises InvalidPayload: a field does not hold JSON, or a hidden one is empty.
    """
    given: dict[str, Any] = {}
    for field in filled_in(fields_of(signature, {}, hidden), form):
        path = f"arguments.{field.name}"
        if field.value == "" and field.is_hidden:
            raise InvalidArguments(path, "is hidden: give it anew.")
        if field.kind == "text" and (field.value or field.is_required):
            given[field.name] = field.value
        elif field.value:
            try:
                given[field.name] = decode_as(field.value, Any, path=path)
            except InvalidPayload as error:
                raise InvalidArguments(path, f"{field.value[:60]!r} is no JSON; write {_EXAMPLES}.") from error
    return encode(given, path="arguments")


def filled_in(fields: Sequence[FormField], form: Mapping[str, str]) -> list[FormField]:
    """The fields with what a form that was sent holds; browsers send line breaks as two characters."""
    return [
        replace(
            field,
            value=form.get(field.input_name, "").replace("\r\n", "\n"),
            kind="json" if field.quoted_name in form else field.kind,
            is_quoted=field.quoted_name in form,
        )
        for field in fields
    ]


_EXAMPLES = 'numbers as 5, texts as "five", lists as [1, 2], and nothing as null'


def _field(
    parameter: tuple[str, Any, Any, Any], given: Mapping[str, Any], *, is_sensitive: bool, is_hidden: bool
) -> FormField:
    name, _, default, annotation = parameter
    kind, is_required = _kind(annotation), default is inspect.Parameter.empty
    value = given.get(name)
    as_it_is = name not in given or (
        kind == "json"
        or (kind == "yes or no" and isinstance(value, bool))
        or (kind == "text" and isinstance(value, str) and "\r" not in value and bool(value or is_required))
    )
    text = "" if name not in given else str(value) if kind == "text" and as_it_is else _json(value)
    return FormField(
        name=name,
        kind=kind if as_it_is else "json",
        annotation=inspect.formatannotation(_bare(annotation)),
        is_required=is_required,
        is_sensitive=is_sensitive,
        is_hidden=is_hidden,
        is_quoted=not as_it_is,
        value=text,
    )


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _kind(annotation: Any) -> _Kind:
    bare = _bare(annotation)
    if bare is str:
        return "text"
    return "yes or no" if bare is bool else "json"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
