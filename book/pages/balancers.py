"""A page for each balancer, from the registry, the header of its file, its example, and its results in the canon."""

import functools
import re

from sources import ROOT, Mistake, cell, listed, prose, read, table

SOURCES = "crates/balance/src"
CANON = "docs/canon-matrix.md"
ENTRY = re.compile(r'^pub\(crate\) static ENTRY: Entry =\s+Entry::declare\(\s*"([^"]+)"', re.MULTILINE)

# Chapters of balancers: title, text, and the condition for a balancer to belong to it.
FAMILIES = [
    ("In switches", "Every switch decides, by the state that it observes itself.", lambda b: b["decides"] == "switch"),
    ("At the edge of the fabric", "The first switch (or the hypervisor) decides: it picks whole paths.", lambda b: b["decides"] == "edge"),
    ("In hosts", "Senders decide, over switches that hash.", lambda b: b["decides"] == "host"),
    ("In the controller", "The controller decides for the whole network; switches apply rules.", lambda b: b["kind"] == "central"),
    ("For servers", "The balancer picks a server for each request to a virtual address, or in advance.", lambda b: b["kind"] == "server"),
    ("Bounds", "A bound is not a balancer. It is the best possible result, with which balancers are compared.", lambda b: b["kind"] == "bound"),
]
# Mechanisms that only change hosts, over ECMP, are registered as switch balancers.
IN_HOSTS = {"mptcp", "repflow", "repsyn"}


@functools.cache
def headers():
    """Returns the headers of source files by the name of the balancer."""
    found = {}
    for file in sorted((ROOT / SOURCES).rglob("*.rs")):
        text = file.read_text(encoding="utf-8")
        entry = ENTRY.search(text)
        if entry:
            lines = [line[3:].removeprefix(" ") for line in text.splitlines() if line.startswith("//!")]
            found[entry.group(1)] = (str(file.relative_to(ROOT)), "\n".join(lines))
    return found


def split(name, header):
    """Splits a header into the description, *Helps* and *Hurts*."""
    found = re.search(r"\n- Helps: (.+?)\n- Hurts: (.+?)\s*\Z", header, re.DOTALL)
    if not found:
        raise Mistake(f"the header of `{name}` does not end with the two items `- Helps: …` and `- Hurts: …`")
    return header[: found.start()], *(" ".join(part.split()) for part in found.groups())


def family(balancer):
    """Returns the number of the family that a balancer belongs to."""
    if balancer["name"] in IN_HOSTS:
        balancer = {**balancer, "decides": "host"}
    return next(number for number, (_, _, holds) in enumerate(FAMILIES) if holds(balancer))


def link(name):
    """Returns the path of a balancer's page, relative to `balancers.md`."""
    return f"balancers/{name}.md"


def overview():
    """Returns tables of all balancers, by family."""
    out = []
    for number, (title, words, _) in enumerate(FAMILIES):
        rows = [
            [f"[`{b['name']}`]({link(b['name'])})", cell(b["summary"]), cell(b["senses"])]
            for b in listed("balancers")
            if family(b) == number
        ]
        out.append(f"## {title}\n\n{words}\n\n" + table(["name", "function", "reacts to"], rows))
    return "\n".join(out)


def number_of(text):
    """Returns the mean slowdown or time in a cell of the canon's matrix; `None` if it was not run."""
    found = re.match(r"(?:≥ )?([\d.,]+)(?: (µs|ms|s)\b)?", text.replace("*", ""))
    seconds = {None: 1.0, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
    return float(found.group(1).replace(",", "")) * seconds[found.group(2)] if found else None


@functools.cache
def canon():
    """Returns the rows of the canon's matrix by balancer, as (scenario, cell, ratio to the best balancer's mean)."""
    rows = [[part.strip() for part in line.strip("|\n").split(" | ")] for line in read(CANON).splitlines() if line.startswith("| ")]
    head, body = [part.strip() for part in rows[0]], rows[2:]
    names = [row[0].replace("\\", "") for row in body]
    columns = range(3, len(head))
    ranked = [row for row in body if not row[0].startswith("*")]  # bounds are set in italics
    best = {}
    for column in columns:
        # A balancer that left flows unfinished is not ranked there, so no other is compared with it.
        means = [number_of(row[column]) for row in ranked if number_of(row[column]) and "≥" not in row[column]]
        best[column] = min(means)
    found = {}
    for row, name in zip(body, names):
        cells = [(head[c], row[c].replace("*", ""), number_of(row[c]) / best[c]) for c in columns if number_of(row[c])]
        found[name] = cells
    return found


def measured(name):
    """Returns the scenarios of the canon in which the balancer was nearest to the best, and farthest from it."""
    cells = canon().get(name)
    if not cells or len(cells) < 6:
        return ""
    cells = sorted(cells, key=lambda one: one[2])
    shown = [[cell(scenario), value, f"{ratio:.2f}×"] for scenario, value, ratio in [*cells[:3], *cells[-3:]]]
    text = (
        "The table shows six scenarios of the [canon and of AI training](../canon-matrix.md): the three in which this "
        "balancer was nearest to the best balancer, and the three in which it was farthest from it.\n\n"
    )
    return text + table(["scenario", "slowdown (mean / 99th percentile) or time", "mean / best mean"], shown) + (
        "\nTimes are those of collectives. ± is half of the 95 % interval over three seeds; without it, one seed. "
        "≥: flows were left unfinished and count with the time that they had reached. "
        "Ratios within the intervals are not significant.\n"
    )


def example(name):
    """Returns the example of a balancer: its command and its file."""
    path = f"experiments/balancers/{name}.toml"
    text = read(path)
    return (
        "## Example\n\n"
        f"```sh\nanabranch run {path}\n```\n\n"
        # A copy of the folder, in which the file finds those that it names, also in other folders.
        f"The file:\n\n<!-- check: file examples/balancers/{name}.toml\nmkdir examples\n"
        f"cp -r experiments/balancers examples -->\n```toml\n{text.strip()}\n```\n"
    )


def parameters(balancer):
    """Returns the table of a balancer's parameters."""
    if not balancer["parameters"]:
        return "This balancer has no parameters.\n"
    rows = [
        [f"`{p['name']}`", f"`{p['default']}`", cell(p["takes"]), cell(p["doc"])] for p in balancer["parameters"]
    ]
    return table(["name", "default", "value", "meaning"], rows) + (
        f"\nNotation in a list of balancers: `{balancer['example']}`"
        + (" (with a parameter set).\n" if ":" in balancer["example"] else ".\n")
    )


def page(balancer):
    """Returns the page of one balancer."""
    name = balancer["name"]
    if name not in headers():
        raise Mistake(f"no file in {SOURCES} has an entry that begins with the name `{name}`")
    file, header = headers()[name]
    text, helps, hurts = split(name, header)
    facts = [["kind", {"bound": "a bound, not a balancer"}.get(balancer["kind"], "a balancer")]]
    if balancer["kind"] != "bound":
        decides = {"edge": "the first switch (edge)", "switch": "every switch", "host": "the sending host", "controller": "the controller"}
        whom = "each request" if balancer["kind"] == "server" else balancer["unit"]
        facts = [["decision by", decides[balancer["decides"]]], ["decision for", whom], ["reacts to", cell(balancer["senses"])]]
        if balancer["kind"] != "server":
            facts.append(["reorders packets of a flow", balancer["reorders"]])
    facts += [["platforms", ", ".join(balancer["platforms"])], ["source", cell(balancer["source"])], ["code", f"`{file}`"]]
    return "\n".join(
        [
            f"# {balancer['title']}\n",
            f"`{name}`: {balancer['summary']}\n",
            table(["", ""], facts),
            "## Mechanism\n",
            prose(text) + "\n",
            "## When to use it\n",
            f"- **Helps** {prose(helps)}\n- **Hurts** {prose(hurts)}\n",
            measured(name),
            "## Parameters\n",
            parameters(balancer),
            example(name),
        ]
    )


def chapters(parent):
    """Returns the chapters of all balancers, by family, below the chapter of the overview."""
    out = []
    for number, (title, words, _) in enumerate(FAMILIES):
        members = [b for b in listed("balancers") if family(b) == number]
        place = [*(parent["number"] or []), number + 1]
        names = [*parent["parent_names"], parent["name"]]
        path = f"balancers/family-{number + 1}.md"
        rows = [[f"[`{b['name']}`]({b['name']}.md)", cell(b["summary"])] for b in members]
        sub = [
            chapter(b["title"], page(b), [*place, at + 1], f"balancers/{b['name']}.md", [*names, title])
            for at, b in enumerate(members)
        ]
        content = f"# {title}\n\n{words}\n\n" + table(["name", "function"], rows)
        out.append(chapter(title, content, place, path, names, sub))
    return out


def chapter(name, content, number, path, parent_names, sub_items=()):
    """Returns a chapter in mdBook's form."""
    return {
        "Chapter": {
            "name": name,
            "content": content,
            "number": number,
            "sub_items": list(sub_items),
            "path": path,
            "source_path": None,
            "parent_names": parent_names,
        }
    }
