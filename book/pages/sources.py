"""Sources of the generated pages: the binary and the headers of source files."""

import functools
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Mistake(Exception):
    """An error that prevents the book from being built: what is wrong, where, and how to fix it."""


def binary():
    """Returns the path of the program."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = pathlib.Path(os.environ.get("ANABRANCH", target / "release" / "anabranch"))
    if not path.is_file():
        raise Mistake(f"{path} does not exist; build it with `cargo build --release`, or set ANABRANCH to the path of another program")
    return path


@functools.cache
def said(*arguments):
    """Returns the output of the program for these arguments."""
    environment = {**os.environ, "COLUMNS": "100"}
    command = [str(binary()), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mistake(f"`anabranch {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def listed(what):
    """Returns the entries of `anabranch list WHAT`."""
    return json.loads(said("list", what, "--json"))


def read(path):
    """Returns the text of a file of the repository."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error}") from error


def prose(text):
    """Returns a documentation comment as Markdown, without links between items of the code."""
    text = re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", text)
    text = re.sub(r"\bmechanisms\.md (§)", r"catalogue \1", text)
    return re.sub(r"\bmechanisms\.md ", "", text)


def cell(text):
    """Returns text as a table cell."""
    return " ".join(prose(text).split()).replace("|", "\\|")


def table(head, rows):
    """Returns a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)) + "\n"
