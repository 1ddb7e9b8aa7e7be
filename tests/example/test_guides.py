"""The guides show the example itself: their code stands in its files, and the tests that they name play it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [path.read_text() for path in sorted((ROOT / "example_app").rglob("*.py"))]
TESTS = {
    name: path.name
    for path in Path(__file__).parent.glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
}
GUIDES = {name: (ROOT / "docs" / name).read_text() for name in ("guide-tickets.md", "guide-jobs.md")}
BLOCKS = [
    (name, block) for name, text in GUIDES.items() for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]


@pytest.mark.parametrize(("guide", "block"), BLOCKS, ids=[block.strip().splitlines()[0] for _, block in BLOCKS])
def test_each_block_is_the_code_of_the_example(guide: str, block: str) -> None:
    """A block stands in a file of the example as it is, but for the indentation of the whole."""
    forms = [textwrap.indent(block, indent) for indent in ("", " " * 4, " " * 8)]

    assert any(f"\n{form}" in f"\n{source}" for form in forms for source in SOURCES), guide


@pytest.mark.parametrize("guide", sorted(GUIDES))
def test_each_named_test_exists(guide: str) -> None:
    """What a guide promises is followed by the name of the test that plays it."""
    named = re.findall(r"`(test_\w+)`", GUIDES[guide])

    assert len(named) >= 9
    assert [name for name in named if name not in TESTS] == []
