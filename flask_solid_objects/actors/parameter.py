"""What an author says of a parameter or a result beyond its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin


@dataclass(frozen=True, slots=True)
class Parameter:
    """Stands in ``Annotated`` behind the type of a parameter or a result."""

    sensitive: bool = False


def parameter(*, sensitive: bool = False) -> Parameter:
    """Describe a parameter or a result: ``card: Annotated[str, parameter(sensitive=True)]``.

    :param sensitive: keep the value out of what operators see.
    """
    return Parameter(sensitive=sensitive)


def is_sensitive(annotation: Any) -> bool:
    """Whether an annotation says, at any depth, that its value must not be shown."""
    if get_origin(annotation) is Annotated:
        kind, *marks = get_args(annotation)
        return is_sensitive(kind) or any(isinstance(each, Parameter) and each.sensitive for each in marks)
    # Of `type Secret = Annotated[...]`.
    alias = getattr(annotation, "__value__", None)
    return (alias is not None and is_sensitive(alias)) or any(is_sensitive(each) for each in get_args(annotation))
