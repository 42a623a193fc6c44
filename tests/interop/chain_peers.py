#!/usr/bin/env python3
"""Builds the conductors and pass-through components of other projects that the chain tests talk to.

    chain_peers.py [--cache DIR] [--long] [--release]

A step of its own, since it takes minutes the first time: two Rust programs per SDK release (conductors/), one
release without --long, both with it. --release builds them as their users would, for measurements. Prints
where each program is. Everything is pinned (packages.lock) and lands in --cache or $KEYHOP_INTEROP_CACHE,
default build/interop/cache; a changed pin or compiler gives a new directory.

Exit status: 0 they are there, 1 a build failed, 77 skipped since cargo is missing or too old.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import install  # noqa: E402

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("KEYHOP_INTEROP_CACHE") or HERE.parent.parent / "build" / "interop" / "cache")
RUST_MIN = (1, 88)
# The method names' spelling by the SDK's release.
RELEASES = {5: "proxy", 3: "_proxy"}
SKIPPED = 77


class Peers:
    """The programs of one release."""

    def __init__(self, directory, release, profile):
        programs = directory / "target" / profile
        self.conductor = programs / f"conductor_{release}"
        self.pass_through = programs / f"pass_through_{release}"
        self.spelling = RELEASES[release]


def rust_version():
    """The compiler's version line; raises Missing if cargo or the compiler is not there or too old."""
    needed = f"Rust {'.'.join(map(str, RUST_MIN))} or newer with cargo (Debian 12: cargo-web)"
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise install.Missing(needed)
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
    match = re.match(r"rustc (\d+)\.(\d+)", version)
    if not match or tuple(map(int, match.groups())) < RUST_MIN:
        raise install.Missing(f"{needed}, found {version or 'none that runs'}")
    return version


def registry():
    """The line with which cargo names its registry in a lock file: asked of cargo, with one small package."""
    with tempfile.TemporaryDirectory() as directory:
        manifest = Path(directory) / "Cargo.toml"
        manifest.write_text('[package]\nname = "ask"\nversion = "0.0.0"\n[dependencies]\ncfg-if = "1"\n')
        (Path(directory) / "src").mkdir()
        (Path(directory) / "src" / "lib.rs").touch()
        install.run(["cargo", "generate-lockfile", "--quiet", "--manifest-path", str(manifest)])
        lock = (Path(directory) / "Cargo.lock").read_text()
    return re.search(r"^source = .*$", lock, re.MULTILINE).group()


def complete_lock(packages, source):
    """The lock file: every package but our own (it has no checksum) comes from the registry."""
    return re.sub(r"^(?=checksum = )", source + "\n", packages, flags=re.MULTILINE)


def peers(cache, release, profile="debug"):
    """The programs of this release, built if they are not there yet. Raises Missing or Failed."""
    sources = HERE / "conductors" / f"sdk_{release}"
    pins = [file.read_bytes() for file in sorted(sources.iterdir())]

    def build(directory):
        shutil.copytree(sources, directory, dirs_exist_ok=True)
        lock = complete_lock((sources / "packages.lock").read_text(), registry())
        (directory / "Cargo.lock").write_text(lock)
        command = ["cargo", "build", "--locked", "--quiet", "--target-dir", str(directory / "target")]
        if profile == "release":
            command.append("--release")
        install.run([*command, "--manifest-path", str(directory / "Cargo.toml")])
        keep_programs(directory / "target" / profile)

    name = f"rust-{release}-{profile}"
    directory = install.cached(cache, name, [rust_version().encode(), *pins], build)
    return Peers(directory, release, profile)


def keep_programs(directory):
    """What the build leaves besides its programs is ten times as big, and nothing is built on it."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif not os.access(entry, os.X_OK):
            entry.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help="where they go (%(default)s)")
    parser.add_argument(
        "--long", action="store_true", help="also the release before the methods were renamed"
    )
    parser.add_argument("--release", action="store_true", help="optimised")
    options = parser.parse_args()
    try:
        options.cache.mkdir(parents=True, exist_ok=True)
        for release in RELEASES if options.long else [5]:
            begin = time.monotonic()
            built = peers(options.cache.resolve(), release, "release" if options.release else "debug")
            print(f"{time.monotonic() - begin:7.1f} s  {built.conductor}  {built.pass_through}", flush=True)
    except install.Missing as missing:
        print(f"SKIPPED: the conductors need {missing}", file=sys.stderr)
        return SKIPPED
    except install.Failed as failed:
        print(f"chain_peers.py: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
