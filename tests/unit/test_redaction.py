"""Which marks hide a value, and what a redaction shows of values that it does not know."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from typing_extensions import TypeAliasType

from flask_solid_objects import Actor, attribute, observable, operation, parameter, query
from flask_solid_objects.actors.parameter import is_sensitive
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.runtime.redaction import FAILED, HIDDEN, UNKNOWN, Redaction, Redactor

Secret = Annotated[str, parameter(sensitive=True)]
Named = TypeAliasType("Named", Secret)


class Safe(Actor):
    """Registered by each test as a subclass of its own."""

    pin: str = attribute("1", sensitive=True)
    codes: list[Secret] = attribute(default_factory=list)
    place: str = "here"

    @operation
    def lock(self, pin: Secret | None = None, note: str = "") -> Secret | None: ...

    @query
    def both(self) -> dict[str, Secret]:
        return {}

    @observable
    def shown(self) -> Secret:
        return ""


def redaction(hook: Redactor | None = None) -> Redaction:
    """Of a registry with one type, "Safe", also known as "Vault"."""

    def nothing(*_: Any) -> Any:
        raise AssertionError("nothing is called here")

    registry = Registry(make_reference=nothing, current_runtime=nothing)
    registry.register(type("Safe", (Safe,), {"__module__": __name__}), "Safe", ("Vault",))
    return Redaction(registry, {} if hook is None else {"Safe": hook})


@pytest.mark.parametrize(
    "kind",
    [
        Secret,
        Secret | None,
        list[Secret],
        dict[str, Secret],
        tuple[int, Secret],
        Annotated[Secret, "more"],
        Annotated[str | None, parameter(sensitive=True)],
        Annotated[list[Secret], "more"],
        Named,
        Named | None,
    ],
)
def test_marks(kind: Any) -> None:
    """A mark counts wherever it stands in an annotation."""
    assert is_sensitive(kind)


@pytest.mark.parametrize(
    "kind", [str, Any, None, Annotated[str, "x"], Annotated[str, parameter()], list[int], "Secret"]
)
def test_no_marks(kind: Any) -> None:
    """What has no mark is shown."""
    assert not is_sensitive(kind)


@pytest.mark.parametrize("actor_type", ["Safe", "Vault"])
def test_state(actor_type: str) -> None:
    """Sensitive attributes are hidden, by either way of marking them, and names of earlier versions are not known."""
    shown = redaction().state(actor_type, '{"pin": "1", "codes": ["2"], "place": "here", "former": "3"}')

    assert shown == {"pin": HIDDEN, "codes": HIDDEN, "place": "here", "former": UNKNOWN}


def test_arguments() -> None:
    """Of an operation the marked ones are hidden, and those that it takes no more are not known."""
    shown = redaction().arguments("Vault", "lock", '{"pin": "1", "note": "n", "former": "3"}')

    assert shown == {"pin": HIDDEN, "note": "n", "former": UNKNOWN}
    assert redaction().arguments("Safe", "lock", '["1"]') == UNKNOWN


@pytest.mark.parametrize("name", ["lock", "both", "shown", "pin", "codes"])
def test_results(name: str) -> None:
    """Marked results are hidden, of queries, observables and reads of sensitive attributes too."""
    assert redaction().result("Safe", name, '"secret"') == HIDDEN


def test_other_results() -> None:
    """A read of any other attribute shows its value."""
    assert redaction().result("Safe", "place", '"here"') == "here"


def test_what_is_not_known() -> None:
    """Types, operations and effects that are not registered hide everything; a rejection keeps code and message."""
    some = redaction()

    assert (
        some.state("Other", "{}") == some.arguments("Other", "x", "{}") == some.arguments("Safe", "x", "{}") == UNKNOWN
    )
    assert some.result("Safe", "x", "1") == some.effect_arguments("x", "{}") == some.effect_result("x", "1") == UNKNOWN
    assert some.rejection("Other", "x", '{"code": "c", "message": "m", "details": {"pin": 1}}') == {
        "code": "c",
        "message": "m",
        "details": UNKNOWN,
    }


def test_hooks() -> None:
    """A hook sees what kind of value it is, the operation, and no sensitive one; under an alias as well."""
    seen: list[Any] = []

    def hook(what: str, name: str | None, value: Any) -> Any:
        seen.append((what, name, value))
        return {"shown": (1, 2)}

    some = redaction(hook)
    shown = [some.state("Vault", '{"pin": "1"}'), some.arguments("Safe", "lock", '{"pin": "1"}')]
    shown += [some.result("Vault", "place", '"x"'), some.rejection("Vault", "lock", '{"code": "c"}')]

    assert shown == [{"shown": [1, 2]}] * 4
    assert seen == [
        ("state", None, {"pin": HIDDEN}),
        ("arguments", "lock", {"pin": HIDDEN}),
        ("result", "place", "x"),
        ("rejection", "lock", {"code": "c"}),
    ]


@pytest.mark.parametrize("answer", [object(), float("inf"), {"x": {"y": object()}}, "\ud800"])
def test_hooks_that_fail(answer: Any) -> None:
    """What a hook returns is plain JSON, or nothing is shown."""
    assert redaction(lambda *_: answer).state("Safe", "{}") == FAILED
