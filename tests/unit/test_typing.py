"""mypy --strict and pyright infer the public API without a plugin, and refuse wrong use of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPING = Path(__file__).parents[1] / "typing"
ROOT = TYPING.parents[1]
API, WRONG = TYPING / "api_lines.py", TYPING / "wrong_lines.py"


def expected_types() -> dict[int, str]:
    """What the comment of each line says, by line number."""
    found = {}
    for number, line in enumerate(API.read_text().splitlines(), 1):
        comment = re.search(r"reveal_type\(.*\)  # (.+)$", line)
        if comment:
            found[number] = comment.group(1)
    return found


def wrong_lines() -> set[int]:
    lines = WRONG.read_text().splitlines()
    return set(range(lines.index("# -- mistakes --") + 2, len(lines) + 1))


def plain(name: str) -> str:
    """A type's name without the modules that it is in."""
    return re.sub(r"[a-z_]+\.", "", name.replace("builtins.", "")).replace("None | int", "int | None")


def run_mypy(path: Path) -> list[tuple[int, str, str]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    lines = re.findall(rf"{re.escape(path.name)}:(\d+): (note|error): (.+)", output)
    return [(int(number), kind, text) for number, kind, text in lines]


def run_pyright(path: Path) -> list[tuple[int, str, str]]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.stdout.startswith("{"), result.stdout + result.stderr
    found = json.loads(result.stdout)["generalDiagnostics"]
    return [(each["range"]["start"]["line"] + 1, each["severity"], each["message"]) for each in found]


def test_expectations_are_there() -> None:
    """The files hold what the other tests look for."""
    assert len(expected_types()) > 20
    assert len(wrong_lines()) > 12


def test_mypy_infers_the_api() -> None:
    """mypy --strict reveals the expected type of every line and finds no mistake."""
    found = run_mypy(API)
    revealed = {
        number: plain(match.group(1))
        for number, _, text in found
        if (match := re.match(r'Revealed type is "(.+)"', text))
    }

    assert [each for each in found if each[1] == "error"] == []
    assert revealed == expected_types()


@pytest.mark.timeout(300)
def test_pyright_infers_the_api() -> None:
    """pyright reveals the same types."""
    found = run_pyright(API)
    revealed = {
        number: plain(match.group(1))
        for number, _, text in found
        if (match := re.match(r'Type of ".+" is "(.+)"', text, re.DOTALL))
    }

    assert [each for each in found if each[1] == "error"] == []
    assert revealed == expected_types()


def test_mypy_refuses_mistakes() -> None:
    """Every wrong line is an error of mypy."""
    assert wrong_lines() - {number for number, kind, _ in run_mypy(WRONG) if kind == "error"} == set()


@pytest.mark.timeout(300)
def test_pyright_refuses_mistakes() -> None:
    """Every wrong line is an error of pyright."""
    assert wrong_lines() - {number for number, kind, _ in run_pyright(WRONG) if kind == "error"} == set()
