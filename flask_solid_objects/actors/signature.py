"""Arguments and results of an operation: bound to its signature, checked by encoding and typed decoding.

Arguments are stored by name, only those that were given; defaults apply when the turn runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from flask_solid_objects.actors.annotations import problem_of_type
from flask_solid_objects.actors.parameter import is_sensitive
from flask_solid_objects.errors import InvalidArguments, InvalidPayload, PayloadTooLarge
from flask_solid_objects.payloads import decode_as, encode, misfit

_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "*{name} is not possible: messages store their arguments by name",
    inspect.Parameter.VAR_KEYWORD: "**{name} is not possible: messages store the arguments that are declared",
    inspect.Parameter.POSITIONAL_ONLY: "{name} must not be positional-only: messages store their arguments by name",
}


_UNUSUAL = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class Signature:
    """What an operation takes and gives; made once, at registration.

    :raises ValueError: the function cannot be a message handler; the text says why and what to do.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not inspect.isfunction(function):
            raise ValueError("must decorate a plain method; a staticmethod, classmethod or property is no message")
        if any(check(function) for check in _UNUSUAL):
            raise ValueError("must be a plain def; async and generator functions cannot run as a turn")
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        if not parameters:
            raise ValueError("needs self as its first parameter")
        self._parameters = parameters[1:]
        for parameter in self._parameters:
            if parameter.kind in _REFUSED:
                raise ValueError(_REFUSED[parameter.kind].format(name=parameter.name))
        hints = resolved_hints(function)
        hints.pop(parameters[0].name, None)  # self may be annotated, and is not stored
        self.shape = tuple((p.name, p.kind, p.default, hints.get(p.name, Any)) for p in self._parameters)
        self.result_type = hints.get("return", Any)
        # Names of parameters whose values operators must not see, "return" for the result.
        self.sensitive = frozenset(name for name, kind in hints.items() if is_sensitive(kind))
        self.names = frozenset(p.name for p in self._parameters)
        self.required = frozenset(p.name for p in self._parameters if p.default is inspect.Parameter.empty)
        self._binding = signature.replace(parameters=self._parameters)
        self._arguments = self._arguments_type(function.__name__, hints)
        for name, kind in [*hints.items()]:
            problem = problem_of_type(kind)
            if problem is not None:
                where = "its result" if name == "return" else f"the argument {name}"
                raise ValueError(f"{where}: {problem}")
        self._argument_decoder = msgspec.json.Decoder(self._arguments)
        self._result_decoder = msgspec.json.Decoder(self.result_type)
        self._check_defaults(hints)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int, *, title: str) -> str:
        """Bind, encode and check arguments, before anything is written.

        :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument.
        """
        try:
            bound = self._binding.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments("arguments", f"{error}; {title} takes {self._binding}.") from error
        if not bound.arguments:
            return "{}"
        text = encode(bound.arguments, path="arguments", limit=limit, setting="SOLID_OBJECTS_MAX_PAYLOAD_BYTES")
        self.decode(text)
        return text

    def decode(self, text: str) -> dict[str, Any]:
        """Stored arguments as the handler takes them.

        :raises InvalidArguments: they do not fit the signature, or no longer do.
        """
        try:
            decoded = self._argument_decoder.decode(text)
        except msgspec.ValidationError as error:
            problem = misfit(error, "arguments")
            raise InvalidArguments(problem.path, problem.problem) from error
        return {
            name: value for name in decoded.__struct_fields__ if (value := getattr(decoded, name)) is not msgspec.UNSET
        }

    def encode_result(self, value: object, limit: int) -> str:
        """Encode what a handler returned, and check it against its annotation.

        :raises InvalidPayload, PayloadTooLarge: it cannot be stored, or is not what was announced.
        """
        text = encode(value, path="result", limit=limit, setting="SOLID_OBJECTS_MAX_RESULT_BYTES")
        self.decode_result(text)
        return text

    def decode_result(self, text: str) -> Any:
        try:
            return self._result_decoder.decode(text)
        except msgspec.ValidationError as error:
            raise misfit(error, "result") from error

    def _arguments_type(self, name: str, hints: Mapping[str, Any]) -> type[msgspec.Struct]:
        """A struct with a field per parameter; what was not given stays unset, so that its default applies."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for parameter in self._parameters:
            kind = hints.get(parameter.name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((parameter.name, kind))
            else:
                optional = kind if kind is Any else kind | msgspec.UnsetType
                fields.append((parameter.name, optional, msgspec.UNSET))
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def _check_defaults(self, hints: Mapping[str, Any]) -> None:
        for parameter in self._parameters:
            if parameter.default is inspect.Parameter.empty:
                continue
            try:
                text = encode(parameter.default, path=parameter.name)
                decode_as(text, hints.get(parameter.name, Any), path=parameter.name)
            except (InvalidPayload, PayloadTooLarge) as error:
                raise ValueError(
                    f"the default of {parameter.name} does not fit its annotation: {error.problem}"
                ) from error


def resolved_hints(subject: Any) -> dict[str, Any]:
    """The annotations of a function or class as types.

    :raises ValueError: one of them cannot be resolved.
    """
    try:
        return get_type_hints(subject, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"the type {error.name!r} of an annotation cannot be found; define it at module level and import it there"
        ) from error
    except (TypeError, AttributeError, SyntaxError) as error:
        raise ValueError(f"an annotation is not a type: {error}") from error
