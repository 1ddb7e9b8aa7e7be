"""Live parts of a page: components that refetch, scalars that repaint, attributes for fragments of one's own.

A component is a template over the declared observables of one or more actors, frozen and autoescaped. It is rendered
the same way the first time and at every refetch, each time after the policy was asked.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import render_template
from markupsafe import Markup, escape

from flask_solid_objects.actors.definition import ActorDefinition, Target
from flask_solid_objects.errors import InvalidComponent
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.references import target_of
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.runtime.viewing import View
from flask_solid_objects.values import Access, ActorKey
from flask_solid_objects.web.handles import ComponentSpec, Handles, Stream

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TAG = re.compile(r"[a-z][a-z0-9-]{0,31}")
_SWAPS = {"morph": "outerMorph", "replace": "outerHTML"}
_MOST_OBSERVABLES, _MOST_LOCALS, _KEY_BYTES = 50, 50, 512
# The alias under which a component knows the actor that it belongs to.
MAIN = "actor"


class ObservedActor:
    """What a component's template sees of an actor: the observables that it declared, each look a fresh copy."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def actor_id(self) -> str:
        return self._view.key.actor_id

    @property
    def actor_type(self) -> str:
        return self._view.key.actor_type

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._view.values:
            # Not an AttributeError, which templates would take for an empty value.
            raise InvalidComponent(
                f"This component does not observe {self._view.key.actor_type}.{name}: add it to observes=, so that "
                f"the component is refetched when it changes (it has: {', '.join(self._view.values) or 'nothing'})."
            )
        return copy.deepcopy(self._view.values[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Renders the live parts of one application's pages."""

    runtime: Callable[[], Runtime]
    viewer: Callable[[], str]
    handles: Handles
    base: str

    # -- what templates call ------------------------------------------------------------------

    def component(
        self,
        reference: object,
        name: str,
        *,
        observes: Sequence[str],
        key: object = None,
        also: Mapping[str, tuple[object, Sequence[str]]] | None = None,
        refresh: str = "morph",
        batch: bool = True,
        payloads: Sequence[str] = (),
        tag: str = "div",
        css_class: str = "",
        **local: Any,
    ) -> Markup:
        """Render ``actors/<type>/_<name>.html`` as a live component.

        :param observes: the observables of the actor that the template reads, as ``actor.<name>``.
        :param key: tells components of one name and actor apart.
        :param also: further actors by alias, each with the observables that are read of it.
        :param refresh: ``morph`` keeps focus and typed text; ``replace`` does not.
        :param batch: False to refetch it alone.
        :param payloads: projections that are computed for this viewer and come as events.
        :param local: JSON values that the template gets as variables, signed into the page.
        :raises InvalidComponent: something in it cannot be; the text says what.
        :raises Unauthorized: the policy denied it.
        """
        main = target_of(reference)
        actors = [_actor_of(MAIN, main, observes)]
        for alias, (other, names) in (also or {}).items():
            if alias == MAIN or not _NAME.fullmatch(alias) or alias in local:
                raise InvalidComponent(f"{alias!r} cannot be the name of a further actor here; choose another.")
            actors.append(_actor_of(alias, target_of(other), names))
        spec = ComponentSpec(
            name=name,
            tag=tag,
            css_class=css_class,
            actors=actors,
            key=None if key is None else str(key),
            refresh=refresh,
            batch=batch,
            payloads=list(payloads),
            locals=local,
        )
        _check(spec, main.definition)
        return self.render(spec, self.viewer(), {})

    def scalar(self, reference: object, name: str, *, tag: str = "span", css_class: str = "") -> Markup:
        """An observable that shares its value, repainted without any request."""
        target = target_of(reference)
        _observables(target.definition, [name])
        if not target.definition.observables[name].shares:
            raise InvalidComponent(
                f'{target.key.actor_type}.{name} does not share its value: declare it with broadcast="value", or '
                "show it in a component."
            )
        self._authorize(target.key, name, {}, self.viewer())
        view = self.runtime().viewing.look(target, [name])
        css = Markup(' class="{}"').format(css_class) if css_class else ""
        pairs = self._attribute([(view, (), [name])], self.viewer())
        opening = Markup('<{}{}{} data-solid-text="{}">').format(tag, css, pairs, name)
        return opening + escape(_text(view.values[name])) + Markup("</{}>").format(tag)

    def watch(self, reference: object, *names: str, payloads: Sequence[str] = ()) -> Markup:
        """The attribute by which an element hears ``solid:changed`` when one of the observables changes."""
        target = target_of(reference)
        _observables(target.definition, names)
        _payloads(target.definition, payloads)
        viewer = self.viewer()
        for name in names:
            self._authorize(target.key, name, {}, viewer)
        view = self.runtime().viewing.look(target, [])
        return self._attribute([(view, tuple(payloads), list(names) or ["*"])], viewer)

    # -- rendering ----------------------------------------------------------------------------

    def render(self, spec: ComponentSpec, viewer: str, seen: dict[ActorKey, Any], *, oob: bool = False) -> Markup:
        """Render a component after its policies were asked, from one snapshot of each actor.

        :param seen: rows that were read in the same request, so that the parts of a page agree.
        :raises Unauthorized, UnknownActorType, InvalidComponent: it cannot be shown, or no longer.
        """
        runtime, views, pairs = self.runtime(), {}, []
        arguments = {**spec.locals, "component_key": spec.key}
        for alias, actor_type, actor_id, names in spec.actors:
            definition = runtime.core.registry.get(actor_type)
            key = ActorKey(actor_type=actor_type, actor_id=actor_id)
            if alias == MAIN:
                self._authorize(key, spec.name, arguments, viewer)
            for name in _observables(definition, names):
                self._authorize(key, name, arguments, viewer)
            if key not in seen:
                seen[key] = runtime.viewing.row(key)
            view = runtime.viewing.view(definition, key, seen[key], names)
            views[alias] = ObservedActor(view)
            pairs.append((view, tuple(spec.payloads) if alias == MAIN else (), names))
        main = spec.actors[0]
        inner = render_template(
            f"actors/{main[1]}/_{spec.name}.html", **spec.locals, **views, component_key=spec.key, viewer=viewer
        )
        token = self.handles.component(spec, viewer)
        swap = _SWAPS[spec.refresh]
        opening = Markup(
            '<{tag} id="{id}"{css} data-solid-c{pairs} hx-get="{base}/c/{token}{alone}" hx-trigger="solid:stale" '
            'hx-target="this" hx-swap="{swap}" hx-push-url="false" hx-ext="solid" '
            # htmx 2 would give these to every button inside.
            'hx-disinherit="hx-target hx-swap hx-push-url"{oob}>'
        ).format(
            tag=spec.tag,
            id=component_id(spec),
            css=Markup(' class="{}"').format(spec.css_class) if spec.css_class else "",
            pairs=self._attribute(pairs, viewer),
            base=self.base,
            token=token,
            alone="" if spec.batch else "?alone=1",
            swap=swap,
            oob=Markup(' hx-swap-oob="{}"').format(swap) if oob else "",
        )
        return opening + Markup(inner) + Markup("</{}>").format(spec.tag)  # noqa: S704 - rendered with autoescape

    def _attribute(self, parts: Sequence[tuple[View, tuple[str, ...], Sequence[str]]], viewer: str) -> Markup:
        """``data-solid``: what the element depends on, with the pair that it was rendered at."""
        entries = [
            [self.handles.stream(Stream(view.key, payloads), viewer), str(view.incarnation), view.revision, list(names)]
            for view, payloads, names in parts
        ]
        return Markup(' data-solid="{}"').format(json.dumps(entries, separators=(",", ":")))

    def _authorize(self, key: ActorKey, operation: str, arguments: Mapping[str, Any], viewer: str) -> None:
        access = Access(
            action="query",
            actor_type=key.actor_type,
            actor_id=key.actor_id,
            operation=operation,
            arguments=arguments,
            context=viewer,
        )
        self.runtime().core.policies.require("query", access, browser=True)


@dataclass(frozen=True, slots=True)
class Scope:
    """One actor in a template: its components, scalars and attributes, without naming it each time."""

    _components: Components
    _reference: object

    def component(self, name: str, **options: Any) -> Markup:
        return self._components.component(self._reference, name, **options)

    def scalar(self, name: str, **options: Any) -> Markup:
        return self._components.scalar(self._reference, name, **options)

    def watch(self, *names: str, **options: Any) -> Markup:
        return self._components.watch(self._reference, *names, **options)


def component_id(spec: ComponentSpec) -> str:
    """The same at every rendering, and different for every other component of a page."""
    identity = encode([spec.name, spec.actors, spec.key, spec.locals], path="component")
    return "solid-" + hashlib.sha256(identity.encode()).hexdigest()[:16]


def _actor_of(alias: str, target: Target, names: Sequence[str]) -> tuple[str, str, str, list[str]]:
    if isinstance(names, str):
        raise InvalidComponent(f"observes takes a list of names, such as [{names!r}].")
    return alias, target.key.actor_type, target.key.actor_id, list(_observables(target.definition, names))


def _observables(definition: ActorDefinition, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in definition.observables:
            known = ", ".join(definition.observables) or "none"
            raise InvalidComponent(
                f"{definition.actor_type} has no observable {name!r} (it has: {known}): declare it with @observable, "
                "or attribute(..., observable=True)."
            )
    if len(names) > _MOST_OBSERVABLES:
        raise InvalidComponent(
            f"{len(names)} observables are too many for one component; {_MOST_OBSERVABLES} are possible."
        )
    return names


def _payloads(definition: ActorDefinition, names: Sequence[str]) -> None:
    for name in names:
        if name not in definition.payloads:
            known = ", ".join(definition.payloads) or "none"
            raise InvalidComponent(f"{definition.actor_type} has no payload {name!r} (it has: {known}).")


def _check(spec: ComponentSpec, definition: ActorDefinition) -> None:
    if not isinstance(spec.name, str) or not _NAME.fullmatch(spec.name):
        raise InvalidComponent(f"The name of a component is letters, digits, _ and -, not {spec.name!r}.")
    if spec.refresh not in _SWAPS:
        raise InvalidComponent(f"refresh is morph or replace, not {spec.refresh!r}.")
    if not _TAG.fullmatch(spec.tag):
        raise InvalidComponent(f"tag is the name of an element such as div, not {spec.tag!r}.")
    if spec.key is not None and len(spec.key.encode()) > _KEY_BYTES:
        raise InvalidComponent(f"key has more than {_KEY_BYTES} bytes.")
    if len(spec.locals) > _MOST_LOCALS or MAIN in spec.locals:
        raise InvalidComponent(f"At most {_MOST_LOCALS} locals are possible, and none of them can be called {MAIN!r}.")
    encode(spec.locals, path="locals")
    _payloads(definition, spec.payloads)


def _text(value: Any) -> str:
    """A shared value as the browser paints it.

    :raises InvalidComponent: it is a list or an object, which is for a component to show.
    """
    plain = json.loads(encode(value, path="value"))
    if isinstance(plain, list | dict):
        raise InvalidComponent("A scalar shows text, a number, a yes or no; show lists and objects in a component.")
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain)
