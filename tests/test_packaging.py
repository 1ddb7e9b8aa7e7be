"""The wheel holds the package with its three folders, and nothing else becomes importable."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from an sdist, as the index would get it."""
    out = tmp_path_factory.mktemp("dist")
    build = (
        "import os, sys; from hatchling import build; "
        "os.chdir(sys.argv[1]); print(getattr(build, 'build_' + sys.argv[2])(sys.argv[3]))"
    )
    run = [sys.executable, "-c", build]
    sdist = subprocess.run([*run, str(ROOT), "sdist", str(out)], check=True, capture_output=True, text=True)
    archive = out / sdist.stdout.split()[-1]
    subprocess.run([sys.executable, "-m", "tarfile", "-e", str(archive), str(out)], check=True)
    source = out / archive.name.removesuffix(".tar.gz")
    made = subprocess.run([*run, str(source), "wheel", str(out)], check=True, capture_output=True, text=True)
    return out / made.stdout.split()[-1]


def test_wheel_has_the_folders_and_nothing_else(wheel: Path) -> None:
    """templates, static and migrations lie inside the package; no other name is on the top level."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}

    for expected in (
        "flask_solid_objects/templates/solid_objects/dashboard/_layout.html",
        "flask_solid_objects/static/dashboard.css",
        "flask_solid_objects/migrations/env.py",
        "flask_solid_objects/migrations/versions/0001_initial.py",
        "flask_solid_objects/py.typed",
    ):
        assert expected in names
    assert {top for top in tops if not top.endswith(".dist-info")} == {"flask_solid_objects"}
    assert [name for name in names if name.endswith((".pyc", ".sqlite3"))] == []


def test_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """From the wheel alone, away from the checkout, tables are made and an actor is called."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import flask_solid_objects\n"
        "assert flask_solid_objects.__file__.startswith(sys.argv[1])\n"
        "from flask import Flask\n"
        "from flask_solid_objects import Actor, SolidObjects, operation\n"
        "app = Flask('x', instance_path=sys.argv[2]); solid = SolidObjects(app)\n"
        "class C(Actor):\n"
        "    value: int = 0\n"
        "    @operation\n"
        "    def inc(self) -> int:\n"
        "        self.value += 1\n"
        "        return self.value\n"
        "solid.actor(C)\n"
        "result = app.test_cli_runner().invoke(args=['solid', 'upgrade'])\n"
        "assert result.exit_code == 0, result.output\n"
        "with app.app_context():\n"
        "    print(C.ref('a').inc()); solid.runtime.close()\n"
    )
    command = [sys.executable, "-c", program, str(site), str(tmp_path / "instance")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (result.stdout, result.returncode) == ("1\n", 0), result.stderr


def test_pip_installs_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """pip takes it into a fresh environment, which then knows its version and where its folders are."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "fresh")], check=True)
    python = next((tmp_path / "fresh").glob("[bS]*/python*"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    # The dependencies are those of this environment, so that no index is asked.
    program = (
        f"import sys; sys.path.append({sysconfig.get_path('purelib')!r})\n"
        "import importlib.metadata, flask_solid_objects\n"
        "from flask_solid_objects import assets\n"
        "assert all(path.is_dir() for path in (assets.TEMPLATES, assets.STATIC, assets.MIGRATIONS))\n"
        "print(flask_solid_objects.__file__, importlib.metadata.version('flask-solid-objects'))\n"
    )
    shown = subprocess.run([str(python), "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    place, version = shown.stdout.split()

    assert Path(place).is_relative_to(tmp_path / "fresh")
    assert version in wheel.name
