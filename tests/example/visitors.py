"""A visitor's browser: it reads the forms of a page and sends them as a browser would, hidden fields included."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from flask import Flask
from flask.testing import FlaskClient


@dataclass
class Form:
    """A form with what it would send; each of its buttons by its label."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Filled:
    """What a press of a button sends; sending it again is what an impatient finger does."""

    action: str
    data: dict[str, str]


class _Forms(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._select: str | None = None
        self._button: dict[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given["action"]))
        elif tag == "input":
            self.forms[-1].fields[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            # A browser sends the first option unless another one was chosen.
            self.forms[-1].fields.setdefault(self._select, given["value"])
        elif tag == "button":
            self._button = {given["name"]: given["value"]} if "name" in given else {}
            if "aria-label" in given:
                self._name_button(given["aria-label"])

    def handle_data(self, data: str) -> None:
        if data.strip():
            self._name_button(data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None

    def _name_button(self, label: str) -> None:
        if self._button is not None:
            self.forms[-1].buttons[label] = self._button
            self._button = None


class Visitor:
    """A browser with cookies of its own, on one page."""

    def __init__(self, app: Flask, path: str) -> None:
        self.client: FlaskClient = app.test_client()
        self.path, self.page = path, ""
        self.look()

    def look(self, path: str | None = None) -> str:
        """Open a page; the same one again by default."""
        self.path = path or self.path
        self.page = self.client.get(self.path).text
        return self.page

    def fill(self, button: str, **values: str) -> Filled:
        """What pressing a button of the page shown would send."""
        for form in _Forms(self.page).forms:
            if button in form.buttons:
                return Filled(form.action, {**form.fields, **form.buttons[button], **values})
        raise AssertionError(f"no button {button!r} in {self.page}")

    def send(self, filled: Filled) -> str:
        """Send a form, and follow to the page that answers."""
        response = self.client.post(filled.action, data=filled.data, follow_redirects=True)
        assert response.status_code == 200, response.text
        self.page = response.text
        return self.page

    def press(self, button: str, **values: str) -> Filled:
        """Fill a form and send it once."""
        filled = self.fill(button, **values)
        self.send(filled)
        return filled

    def seat(self, name: str) -> str:
        """How the seat map shows a seat to this visitor, now."""
        label = re.search(rf'aria-label="([^"]*[Ss]eat {name}\b[^"]*)"', self.look())
        assert label is not None
        return label.group(1)
