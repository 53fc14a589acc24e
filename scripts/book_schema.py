"""Checks that the book's page of the results schema lists every field of real results."""

import json
import pathlib
import subprocess
import tempfile

import schema
from sources import ROOT

# Small runs that together write most optional fields: failures, a controller, requests, claims.
RUNS = [
    ["compare", "--balancers", "conga,sdn-ecmp,optimum", "--flows", "50", "--seeds", "1"],
    ["run", str(ROOT / "experiments/balancers/server-cpu.toml"), "--seeds", "1"],
]


def unknown(value, kind, known, path):
    """Returns the fields of a value that the structure of this type does not have."""
    kind = kind.replace("std::collections::", "").strip()
    for outer in ("Option<", "Vec<", "BTreeMap<String, "):
        if kind.startswith(outer):
            inner = kind[len(outer) : -1]
            if isinstance(value, dict) and outer.startswith("B"):
                value = list(value.values())
            many = value if isinstance(value, list) else [value]
            return [one for entry in many if entry is not None for one in unknown(entry, inner, known, path)]
    if kind not in known or not isinstance(value, dict):
        return []
    fields = {name: type_ for name, type_, _, _ in known[kind][2]}
    found = [f"{path}.{name}" for name in value if name not in fields]
    return found + [one for name in value if name in fields for one in unknown(value[name], fields[name], known, f"{path}.{name}")]


def check(binary):
    """Makes small runs, prints the fields that the page lacks, and returns their number."""
    known, wrong = schema.structures(), 0
    for arguments in RUNS:
        with tempfile.TemporaryDirectory(prefix="anabranch-schema-") as folder:
            out = pathlib.Path(folder) / "out"
            subprocess.run([binary, *arguments, "--quiet", "--no-flows", "--out", out], check=True, stdout=subprocess.DEVNULL)
            summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        missing = sorted(set(unknown(summary, schema.ROOT, known, "summary")))
        for field in missing:
            print(f"the book's page of results has no field `{field}`")
        wrong += len(missing)
    print(f"results of {len(RUNS)} runs against the book's schema: {wrong} fields unknown")
    return wrong
