"""Reference pages from the lists and help texts of the program."""

import re

from sources import cell, listed, said, table

COMMANDS = [
    "compare", "run", "merge", "cluster", "check", "matrix", "reproduce", "report", "list", "topology", "bound", "bench", "bench sim", "bench controller", "simtest",
    "testbed", "testbed run", "testbed validate", "testbed up", "testbed down", "serve", "replay", "agent", "completions", "manual",
]  # fmt: skip


def by_section(items):
    """Returns the keys by section, in the order of the list."""
    groups = {}
    for item in items:
        section, dot, name = item["name"].rpartition(".")
        groups.setdefault(section if dot else "", []).append({**item, "name": name if dot else item["name"]})
    return groups


def key_tables(items, repeated):
    """Returns a table for each section."""
    out = []
    for section, found in by_section(items).items():
        if section == "":
            head = "Top of the file, above all sections"
        else:
            head = f"`[[{section}]]` (repeatable)" if section in repeated else f"`[{section}]`"
        rows = [[f"`{key['name']}`", cell(key["takes"]), cell(key["default"]), cell(key["doc"])] for key in found]
        out.append(f"## {head}\n\n" + table(["key", "value", "default", "meaning"], rows))
    return "\n".join(out)


def keys():
    """Returns every key of an experiment file."""
    items = listed("keys")
    return key_tables(items, {item["name"].rpartition(".")[0] for item in items if item["is_repeated"]})


def settings():
    """Returns every key of the configuration of `anabranch serve`."""
    items = listed("settings")
    return key_tables(items, {item["name"].rpartition(".")[0] for item in items if item["is_repeated"]})


def metrics():
    """Returns every metric of a claim."""
    return table(["metric", "meaning"], [[f"`{item['name']}`", cell(item["summary"])] for item in listed("metrics")])


def listing(what):
    """Returns all entries of one list of the program, with their parameters."""
    out = []
    for item in listed(what):
        source = f" *Source: {cell(item['source'])}.*" if item["source"] else ""
        summary = cell(item["summary"])
        out.append(f"### `{item['name']}`\n\n{summary[:1].upper()}{summary[1:].rstrip('.')}.{source}\n")
        if item["parameters"]:
            rows = [[f"`{p['name']}`", cell(p["default"]) or "–", cell(p["doc"])] for p in item["parameters"]]
            out.append(table(["parameter", "default", "meaning"], rows))
    return "\n".join(out)


def commands():
    """Returns the help text of every command, as the program prints it."""
    out = []
    top = said("help")
    for name in COMMANDS:
        text = said(*name.split(), "--help").rstrip()
        out.append(f"## anabranch {name}\n\n```text\n{text}\n```\n")
    known = {name.split()[0] for name in COMMANDS}
    section = top.partition("\nCommands:\n")[2].partition("\n\n")[0]
    found = set(re.findall(r"^  ([a-z]+) ", section, re.MULTILINE)) - {"help"}
    if found != known:
        raise SystemExit(f"error: the book's list of commands (COMMANDS in book/pages/reference.py) differs from the program's: {sorted(found ^ known)}")
    return f"```text\n{top.rstrip()}\n```\n\n" + "\n".join(out)
