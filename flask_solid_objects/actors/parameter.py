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
    """Whether an annotation says that its value must not be shown."""
    if get_origin(annotation) is not Annotated:
        return False
    return any(isinstance(each, Parameter) and each.sensitive for each in get_args(annotation)[1:])
