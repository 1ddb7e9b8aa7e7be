"""Check a class once, at registration, and make its definition; every mistake is one error with the remedy."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, get_origin

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.annotations import problem_of_type
from flask_solid_objects.actors.attribute import MISSING, Attribute
from flask_solid_objects.actors.definition import ActorDefinition, ObservableDefinition, OperationDefinition
from flask_solid_objects.actors.observable import Observable, Payload
from flask_solid_objects.actors.operation import Operation, Query
from flask_solid_objects.actors.parameter import is_sensitive
from flask_solid_objects.actors.signature import Signature, resolved_hints
from flask_solid_objects.actors.state import Field, StateMigration, StateSchema, default_of
from flask_solid_objects.errors import InvalidActor, InvalidPayload
from flask_solid_objects.payloads import decode_as, encode

NAME_LENGTH = 191
# What references and actors already have, and what the bound verbs are called.
RESERVED = frozenset(name for name in dir(Actor) if not name.startswith("_")) | {
    *("send", "schedule", "emit", "stage", "prepare", "unschedule", "unschedule_all", "reminder", "reminders"),
    *("instance_id", "state", "key"),
}
_HOOKS = ("on_activate", "on_deactivate")


def define(cls: object, name: str | None, aliases: tuple[str, ...]) -> ActorDefinition:
    """Make the definition of a class.

    :raises InvalidActor: saying where the mistake is and how to mend it.
    """
    if not isinstance(cls, type) or not issubclass(cls, Actor) or cls is Actor:
        raise InvalidActor(
            f"{cls!r} is not a subclass of flask_solid_objects.Actor; write class {_name_of(cls)}(Actor)."
        )
    complain = _Complaints(cls)
    actor_type = cls.__name__ if name is None else name
    for each in (actor_type, *aliases):
        if not isinstance(each, str) or not 1 <= len(each) <= NAME_LENGTH or not each.isprintable():
            complain.about(f"the actor type {each!r} must be printable text of 1 to {NAME_LENGTH} characters")
    fields = _fields(cls, complain)
    operations = _operations(cls, actor_type, complain)
    for each_name, each_field in fields.items():
        if each_name in operations:
            complain.about(f"{each_name} is both an attribute and a method; rename one of them")
        operations[each_name] = _read(actor_type, each_name, each_field.type)
    schema = StateSchema(actor_type, fields, _version(cls, complain), _steps(cls, complain))
    _check_hooks(cls, complain)
    return ActorDefinition(
        actor_type=actor_type,
        aliases=aliases,
        cls=cls,
        schema=schema,
        operations=operations,
        observables=_observables(cls, fields, operations),
        payloads=[name for name in dir(cls) if isinstance(_class_default(cls, name), Payload)],
    )


class _Complaints:
    """Raises with the place of the class."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def about(self, problem: str, member: str | None = None) -> None:
        title = self._cls.__qualname__ + (f".{member}" if member else "")
        raise InvalidActor(f"{title}{self._place(member)}: {problem}.")

    def _place(self, member: str | None) -> str:
        found: Any = self._cls.__dict__.get(member) if member else None
        for subject in (getattr(found, "function", found), self._cls):
            try:
                return f" ({inspect.getsourcefile(subject)}:{inspect.getsourcelines(subject)[1]})"
            except (OSError, TypeError):  # a value, or a class that was not read from a file
                continue
        return ""


def _fields(cls: type[Actor], complain: _Complaints) -> dict[str, Field]:
    """The annotated attributes of the class and its bases, in order."""
    try:
        hints = resolved_hints(cls)
    except ValueError as error:
        complain.about(str(error))
        raise AssertionError from error
    fields: dict[str, Field] = {}
    for base in _declaring(cls):
        for name in inspect.get_annotations(base):
            kind = hints.get(name, Any)
            if get_origin(kind) is ClassVar or kind is ClassVar:
                continue
            fields[name] = _field(cls, name, kind, complain)
        for name, value in base.__dict__.items():
            if isinstance(value, Attribute) and name not in fields:
                complain.about("attribute(...) needs an annotation, such as notes: list[str] = attribute(...)", name)
    return fields


def _field(cls: type[Actor], name: str, kind: Any, complain: _Complaints) -> Field:
    _check_name(name, complain, "an attribute")
    problem = problem_of_type(kind)
    if problem is not None:
        complain.about(problem, name)
    default = _class_default(cls, name)
    observable: bool | str = False
    sensitive, factory = False, None
    if isinstance(default, Attribute):
        observable, sensitive, factory = default.observable, default.sensitive, default.default_factory
        default = default.default
        if (default is MISSING) == (factory is None):
            complain.about("attribute(...) takes a default or a default_factory, one of both", name)
        if factory is not None and not callable(factory):
            complain.about("default_factory must be callable, such as list", name)
        if observable not in (True, False, "value"):
            complain.about('observable must be True, False or "value"', name)
    elif default is MISSING:
        complain.about(f"state needs a default, since a new actor has no value yet: {name}: ... = ...", name)
    elif isinstance(default, Operation | Query | Observable | Payload) or inspect.isfunction(default):
        complain.about("is both an attribute and a method; rename one of them", name)
    fresh = default_of(default, factory)
    _check_default(name, kind, fresh, complain)
    return Field(name=name, type=kind, fresh=fresh, observable=observable, sensitive=sensitive or is_sensitive(kind))


def _declaring(cls: type[Actor]) -> list[type]:
    """The classes that may declare members, parents first; mixins need not be actors."""
    return [base for base in reversed(cls.__mro__) if base not in (object, Actor)]


def _class_default(cls: type[Actor], name: str) -> Any:
    """The value on the class, not through descriptors."""
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), MISSING)


def _check_default(name: str, kind: Any, fresh: Callable[[], Any], complain: _Complaints) -> None:
    try:
        value = fresh()
    except Exception as error:
        complain.about(f"a default could not be made: {type(error).__name__}: {error}", name)
        raise AssertionError from error
    try:
        decode_as(encode(value, path=name), kind, path=name)
    except InvalidPayload as error:
        complain.about(f"the default does not fit the annotation: {error.problem.rstrip('.')}", name)


def _operations(cls: type[Actor], actor_type: str, complain: _Complaints) -> dict[str, OperationDefinition]:
    operations: dict[str, OperationDefinition] = {}
    declared: dict[str, Any] = {}
    for base in _declaring(cls):
        for name, member in base.__dict__.items():
            if isinstance(_wrapped(member), Operation | Query | Observable | Payload):
                complain.about("must decorate a plain method: @staticmethod and @property do not go above it", name)
            if isinstance(member, Operation | Query | Observable):
                _check_name(name, complain, "an operation")
                if inspect.isfunction(member.function) and name != member.__name__:
                    complain.about(f"is called {member.__name__} inside; a second name for it is not possible", name)
                _check_override(name, member, declared.get(name), complain)
                declared[name] = member
                operations[name] = _operation(actor_type, name, member, complain)
            elif isinstance(member, Payload):
                _check_name(name, complain, "a payload")
                _check_payload(name, member, declared.get(name, member), complain)
                declared[name] = member
            elif name in declared:
                decorator = type(declared[name]).__name__.lower()
                complain.about(f"overrides a {decorator} without the decorator; put @{decorator} above it", name)
    return operations


def _observables(
    cls: type[Actor], fields: Mapping[str, Field], operations: Mapping[str, OperationDefinition]
) -> list[ObservableDefinition]:
    """Attributes that are observable, then computed ones, each in the order of declaration."""
    found = [
        ObservableDefinition(name=name, shares=each.observable == "value", computed=None)
        for name, each in fields.items()
        if each.observable
    ]
    for name, operation in operations.items():
        member = _class_default(cls, name)
        if isinstance(member, Observable):
            found.append(ObservableDefinition(name=name, shares=member.broadcast == "value", computed=operation))
    return found


def _wrapped(member: Any) -> Any:
    """What staticmethod, classmethod or property was put around."""
    return getattr(member, "__func__", None) or getattr(member, "fget", None)


def _check_payload(name: str, member: Payload[Any], earlier: Any, complain: _Complaints) -> None:
    if not isinstance(earlier, Payload):
        complain.about("is an operation of the parent class; give the payload another name", name)
    if not inspect.isfunction(member.function) or inspect.iscoroutinefunction(member.function):
        complain.about("a payload is a plain method", name)
    if len(inspect.signature(member.function).parameters) != 2:
        complain.about("a payload takes self and the viewer, and nothing else", name)


def _operation(actor_type: str, name: str, member: Any, complain: _Complaints) -> OperationDefinition:
    try:
        signature = Signature(member.function)
    except ValueError as error:
        complain.about(str(error), name)
        raise AssertionError from error
    if isinstance(member, Observable):
        if signature.shape:
            complain.about("an observable takes no arguments", name)
        if member.broadcast not in ("invalidation", "value"):
            complain.about('broadcast must be "invalidation" or "value"', name)
        return OperationDefinition(actor_type, name, "read", signature, name)
    return OperationDefinition(actor_type, name, member.kind, signature, None)


def _check_override(name: str, member: Any, earlier: Any, complain: _Complaints) -> None:
    """A message that was sent to the parent class must fit the subclass too."""
    if earlier is None:
        return
    if type(member) is not type(earlier):
        decorator = type(earlier).__name__.lower()
        complain.about(f"overrides a {decorator} with another kind; put @{decorator} above it", name)
    try:
        mine, theirs = Signature(member.function).shape, Signature(earlier.function).shape
    except ValueError:
        return  # the malformed one is named when its own definition is made
    if mine != theirs:
        complain.about("overrides an operation with other parameters; keep them, or give it another name", name)


def _read(actor_type: str, name: str, kind: Any) -> OperationDefinition:
    """The ordered read of an attribute."""

    def read(self: Actor) -> Any:
        return getattr(self, name)

    read.__annotations__ = {"return": kind}
    return OperationDefinition(actor_type, name, "read", Signature(read), name)


def _check_name(name: str, complain: _Complaints, what: str) -> None:
    if name.startswith("_"):
        complain.about(f"{what} must not begin with an underscore; rename it, or annotate it as ClassVar", name)
    if name in RESERVED or keyword.iskeyword(name):
        complain.about(f"{name} is a name that references or actors already have; choose another", name)
    if len(name) > NAME_LENGTH:
        complain.about(f"the name is longer than {NAME_LENGTH} characters", name)


def _version(cls: type[Actor], complain: _Complaints) -> int:
    version: object = cls.state_version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        complain.about(f"state_version must be a whole number from 1 on, not {version!r}")
    return cls.state_version


def _steps(cls: type[Actor], complain: _Complaints) -> Mapping[int, StateMigration]:
    steps: dict[int, StateMigration] = {}
    for base in reversed(cls.__mro__):
        mine: dict[int, str] = {}
        for name, member in base.__dict__.items():
            if not isinstance(member, StateMigration):
                continue
            number: object = member.from_version
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < cls.state_version:
                complain.about(
                    f"from_version={number!r} must be from 1 to state_version - 1 ({cls.state_version - 1})", name
                )
            if member.from_version in mine:
                complain.about(f"version {number} has two migrations, {mine[member.from_version]} is the other", name)
            if len(inspect.signature(member.function).parameters) != 1:
                complain.about("a state migration takes one argument, the stored dict, and no self", name)
            mine[member.from_version] = name
            steps[member.from_version] = member
    if steps:
        missing = [number for number in range(min(steps), cls.state_version) if number not in steps]
        if missing:
            complain.about(f"state_version {cls.state_version} needs a @state_migration(from_version={missing[0]})")
    return steps


def _check_hooks(cls: type[Actor], complain: _Complaints) -> None:
    for name in _HOOKS:
        hook = getattr(cls, name)
        if not inspect.isfunction(hook) or inspect.iscoroutinefunction(hook):
            complain.about("a hook is a plain method", name)
        elif len(inspect.signature(hook).parameters) != 1:
            complain.about("a hook takes self and nothing else", name)
    if cls.__init__ is not object.__init__ or cls.__new__ is not object.__new__:
        complain.about("__init__ and __new__ are not used; give attributes defaults, or use on_activate", "__init__")


def _name_of(cls: object) -> str:
    return getattr(cls, "__name__", "Name")
