"""A page as a browser takes it: its elements, its text, and the forms that can be sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"meta", "link", "input", "br", "hr", "img"}


@dataclass(slots=True)
class Form:
    """A form with what it would send untouched, and the texts of its buttons."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class Html(HTMLParser):
    """A parsed page; ``inline`` lists scripts and styles in it, ``problems`` tags that match no other."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.forms: list[Form] = []
        self.texts: list[str] = []
        self.inline: list[str] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self._area: str | None = None
        self._select: str | None = None
        self._script_has_source = False
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> stays open" for tag in self._open if tag not in ("html", "body", "p", "li")]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def links(self) -> list[str]:
        """Every address of a link, in the order of the page."""
        return [attributes["href"] for tag, attributes in self.elements if tag == "a"]

    def form_of(self, button: str) -> Form:
        """The form with this button."""
        found = [form for form in self.forms if button in form.buttons]
        assert found, f"no button {button!r} among {self.buttons}"
        return found[0]

    @property
    def buttons(self) -> list[str]:
        """The buttons that would act."""
        return [each for form in self.forms if form.method == "post" for each in form.buttons]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        self.inline += [f"{name} of <{tag}>" for name in given if name.startswith("on") or name == "style"]
        self.inline += [
            f"{name} of <{tag}>" for name, value in given.items() if value.lower().startswith("javascript:")
        ]
        if tag not in _EMPTY:
            self._open.append(tag)
        if tag == "style":
            self.inline.append("<style>")
        if tag == "script":
            self._script_has_source = "src" in given
        self._of_form(tag, given)

    def _of_form(self, tag: str, given: dict[str, str]) -> None:
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get")))
        elif not self.forms:
            return
        elif tag == "input" and "name" in given:
            self.forms[-1].fields[given["name"]] = given.get("value", "")
        elif tag == "textarea":
            self._area = given["name"]
            self.forms[-1].fields[self._area] = ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            if self._select not in self.forms[-1].fields or "selected" in given:
                self.forms[-1].fields[self._select] = given.get("value", "\0text")
        elif tag == "button":
            self.forms[-1].buttons.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while (last := self._open.pop()) != tag:
                if last not in ("p", "li"):
                    self.problems.append(f"<{last}> stays open before </{tag}>")
        elif tag not in _EMPTY and tag not in ("path", "rect"):
            self.problems.append(f"</{tag}> closes nothing")
        if tag == "textarea":
            self._area = None
        if tag == "select":
            self._select = None

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script" and (data.strip() or not self._script_has_source):
            self.inline.append("<script>")
        if self._area is not None:
            # A browser leaves out the first line break.
            before = self.forms[-1].fields[self._area]
            self.forms[-1].fields[self._area] = before + (data.removeprefix("\n") if not before else data)
        elif inside == "button" and self.forms:
            self.forms[-1].buttons[-1] += data
        elif inside == "option" and self._select is not None and self.forms[-1].fields[self._select] == "\0text":
            self.forms[-1].fields[self._select] = data
        self.texts.append(data)
