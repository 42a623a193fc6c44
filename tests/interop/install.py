"""Installs the official SDKs into a cache directory and finds the programs to run them.

Everything is pinned (package-lock.json, requirements.txt); a changed pin gives a new directory, so an old
one is never half updated. Several runs may share a cache: a lock file serialises them.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE_MAJOR_MIN = 18


class Missing(Exception):
    """A program of the system is not there; the text says which package has it."""


class Failed(Exception):
    """An install did not work; the text is the end of its output."""


def require_programs():
    """Raises Missing unless Node, npm, and Python with venv are there."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        raise Missing("node and npm (Debian: nodejs, npm)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    match = re.match(r"v(\d+)\.", version)
    if not match or int(match.group(1)) < NODE_MAJOR_MIN:
        raise Missing(f"Node {NODE_MAJOR_MIN} or newer, found {version or 'none that runs'}")
    if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode != 0:
        raise Missing("Python's venv module (Debian: python3-venv)")


def run(command, cwd=None):
    result = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{(result.stdout + result.stderr)[-2000:]}")


def cached(cache, name, pins, install):
    """The directory for these pins, made by `install(directory)` if it is not complete yet."""
    digest = hashlib.sha256(b"\0".join(pins)).hexdigest()[:12]
    directory = cache / f"{name}-{digest}"
    complete = directory / ".complete"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            install(directory)
            complete.touch()
    return directory


def node_modules(cache):
    """The node_modules directory that holds the TypeScript SDK."""
    files = ("package.json", "package-lock.json")

    def install(directory):
        for file in files:
            shutil.copy(HERE / file, directory)
        run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], cwd=directory)

    return cached(cache, "node", [(HERE / file).read_bytes() for file in files], install) / "node_modules"


def python(cache):
    """The interpreter of a virtual environment that holds the Python SDK."""
    pins = [(HERE / "requirements.txt").read_bytes(), os.fsencode(sys.executable), sys.version.encode()]

    def install(directory):
        run([sys.executable, "-m", "venv", str(directory)])
        pip = [
            str(directory / "bin/python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
        ]
        run([*pip, "--no-input", "--requirement", str(HERE / "requirements.txt")])

    return cached(cache, "python", pins, install) / "bin/python"
