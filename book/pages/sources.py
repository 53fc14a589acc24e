"""Where generated pages come from: the binary, and headers of source files."""

import functools
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Mistake(Exception):
    """Something the book cannot be made with: what, where, and what to do."""


def binary():
    """The program whose lists the pages are made of."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = pathlib.Path(os.environ.get("ANABRANCH", target / "release" / "anabranch"))
    if not path.is_file():
        raise Mistake(f"{path} is not there; build it with `cargo build --release`, or name another with ANABRANCH")
    return path


@functools.cache
def said(*arguments):
    """What the program prints for these arguments."""
    environment = {**os.environ, "COLUMNS": "100"}
    command = [str(binary()), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mistake(f"`anabranch {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def listed(what):
    """What `anabranch list WHAT` lists."""
    return json.loads(said("list", what, "--json"))


def read(path):
    """A file of the repository."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error}") from error


def prose(text):
    """A documentation comment as Markdown for readers of the book, who cannot follow links between items of the code."""
    text = re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", text)
    text = re.sub(r"\bmechanisms\.md (§)", r"catalogue \1", text)
    return re.sub(r"\bmechanisms\.md ", "", text)


def cell(text):
    """Text as a cell of a table."""
    return " ".join(prose(text).split()).replace("|", "\\|")


def table(head, rows):
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)) + "\n"
