"""The docs name everything that a user can meet, and the README's example runs."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import flask_solid_objects
from flask_solid_objects import errors
from flask_solid_objects.cli import solid_cli
from flask_solid_objects.settings import PREFIX, Settings

ROOT = Path(__file__).parents[1]
DOCS = {path.name: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
ALL = "\n".join(DOCS.values())


def commands(group: click.Group, prefix: str = "") -> list[tuple[str, click.Command]]:
    found = []
    for name, command in sorted(group.commands.items()):
        found += (
            commands(command, f"{prefix}{name} ") if isinstance(command, click.Group) else [(prefix + name, command)]
        )
    return found


@pytest.mark.parametrize("field", dataclasses.fields(Settings), ids=lambda field: field.name)
def test_every_setting_is_documented(field: dataclasses.Field[object]) -> None:
    """docs/settings.md has a line for each key, with its help."""
    assert f"`{PREFIX}{field.name.upper()}`" in DOCS["settings.md"]
    assert field.metadata["text"] in DOCS["settings.md"]


def test_no_setting_is_documented_that_does_not_exist() -> None:
    """Every key that the docs name is a setting."""
    known = {PREFIX + field.name.upper() for field in dataclasses.fields(Settings)}
    named = set(re.findall(rf"{PREFIX}[A-Z_]+[A-Z]", ALL))

    assert named - known == set()


@pytest.mark.parametrize(("name", "command"), commands(solid_cli), ids=[name for name, _ in commands(solid_cli)])
def test_every_command_is_documented(name: str, command: click.Command) -> None:
    """docs/cli.md has each command with each of its options."""
    line = next((line for line in DOCS["cli.md"].splitlines() if line.startswith(f"| `{name}")), "")

    assert line
    for parameter in command.params:
        option = max(parameter.opts, key=len)
        if isinstance(parameter, click.Option) and option not in ("--json", "--host", "--port"):
            assert option in line


def test_every_error_is_documented() -> None:
    """docs/errors.md has each public error, and the rest of the tree is named there."""
    names = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.SolidObjectsError) and not name.startswith("_")
    ]

    assert [name for name in names if f"`{name}`" not in DOCS["errors.md"]] == []


def test_every_public_name_is_documented() -> None:
    """Each name of the package occurs in the docs, and the list of names is sorted and right."""
    names = flask_solid_objects.__all__

    assert [name for name in names if not re.search(rf"\b{name}\b", ALL)] == []
    assert list(names) == sorted(names)
    assert [name for name in names if not hasattr(flask_solid_objects, name)] == []


def test_links_lead_somewhere() -> None:
    """Each relative link of the docs is a file."""
    for name, text in DOCS.items():
        base = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (base / target).exists(), f"{name}: {target}"


def test_the_readme_example_runs(tmp_path: Path) -> None:
    """The complete example of the README works as it stands, with the commands beside it."""
    code = re.search(r"```python\n(.*?)```", DOCS["README.md"], re.DOTALL)
    assert code is not None
    program = code.group(1).replace("sqlite:///shop.sqlite3", f"sqlite:///{tmp_path / 'shop.sqlite3'}")
    (tmp_path / "shop.py").write_text(program)
    (tmp_path / "check.py").write_text(
        "from shop import Cart, app, solid\n"
        "client = app.test_client()\n"
        "assert client.post('/carts/a/x').json == {'size': 1}\n"
        "assert client.post('/carts/a/check-out').status_code == 202\n"
        "with app.app_context():\n"
        "    assert solid.runtime.worker().run_once()\n"
        "    assert Cart.ref('a').status == 'checked out'\n"
        "    solid.runtime.close()\n"
        "print('fine')\n"
    )
    flask = [sys.executable, "-m", "flask", "--app", "shop", "solid", "upgrade"]
    subprocess.run(flask, cwd=tmp_path, check=True, capture_output=True)
    result = subprocess.run(
        [sys.executable, "-W", "error", "check.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (result.stdout, result.returncode) == ("fine\n", 0), result.stderr


def test_the_example_of_testing_runs(tmp_path: Path) -> None:
    """The files of docs/testing.md pass as they stand, in a pytest that knows only the plugin."""
    for block in re.findall(r"```python\n(.*?)```", DOCS["testing.md"], re.DOTALL):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None, block
        (tmp_path / name.group(1)).write_text(block)
    plugin = ["-p", "flask_solid_objects.pytest_plugin"]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-W", "error", *plugin],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, "9 passed" in result.stdout) == (0, True), result.stdout


def test_every_step_is_documented() -> None:
    """docs/testing.md has each step at which a test can fail."""
    sources = [path.read_text() for path in (ROOT / "flask_solid_objects").rglob("*.py")]
    steps = {step for source in sources for step in re.findall(r'reach\("([a-z_.]+)"', source)}

    assert sorted(step for step in steps if f"`{step}`" not in DOCS["testing.md"]) == []
