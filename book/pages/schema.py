"""The results schema, from the documented structures that the program writes."""

import re

from sources import Mistake, cell, prose, read, table

FOLDER = "crates/experiment/src/results/summary"
FILES = [f"{FOLDER}/{name}.rs" for name in ("mod", "measure", "testbed", "measurements", "points", "claims", "detail", "fidelity", "requests")]
# The outermost structure of `summary.json`; the types of its fields lead to the others.
ROOT = "Summary"
ITEM = re.compile(
    r"((?:^///[^\n]*\n)+)(?:^#\[[^\n]*\n)*^pub (struct|enum) (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
MEMBER = re.compile(r"((?:^ {4}///.*\n)+)((?: {4}#\[.*\n)*)^ {4}(?:pub )?(\w+)(?:: (.+?))?,$", re.MULTILINE)
WORDS = {"u8": "count", "u32": "count", "u64": "count", "i64": "integer", "f64": "number", "String": "text", "bool": "true or false"}


def kebab(name):
    """Returns the name of a value as results spell it: GroupTime as group-time."""
    return re.sub(r"(?<=.)(?=[A-Z])", "-", name).lower()


def words(kind, known):
    """Returns a type as text, with links to the tables of structures."""
    kind = kind.replace("std::collections::", "").strip()
    for outer, text in (("Option", "{} or null"), ("Vec", "list of {}")):
        found = re.fullmatch(outer + r"<(.+)>", kind)
        if found:
            return text.format(words(found.group(1), known))
    found = re.fullmatch(r"BTreeMap<String, (.+)>", kind)
    if found:
        return f"object: {words(found.group(1), known)} by name"
    found = re.fullmatch(r"\[(.+); (\d+)\]", kind)
    if found:
        return f"list of {found.group(2)}: {words(found.group(1), known)}"
    found = re.fullmatch(r"\((.+)\)", kind)
    if found:
        return "[" + ", ".join(words(part, known) for part in found.group(1).split(", ")) + "]"
    if kind in WORDS:
        return WORDS[kind]
    if kind in known:
        return f"[{kind}](#{kind.lower()})"
    raise Mistake(f"the results schema has a field of the unknown type `{kind}`; define it in one of {', '.join(FILES)}")


def comment(text):
    """Returns the text of documentation comments."""
    return prose("\n".join(line.strip()[3:].strip() for line in text.strip().splitlines()))


def structures():
    """Returns all structures by name: (kind, text, members)."""
    found = {}
    for file in FILES:
        for docs, kind, name, body in ITEM.findall(read(file)):
            members = [(member, type_, comment(text), attributes) for text, attributes, member, type_ in MEMBER.findall(body)]
            found[name] = (kind, comment(docs), members)
    return found


def tables():
    """Returns a table for each structure, in the order of first use."""
    known = structures()
    out, waiting, seen = [], [ROOT], {ROOT}
    while waiting:
        name = waiting.pop(0)
        kind, text, members = known[name]
        out.append(f"## {name}\n\n{text}\n")
        if kind == "enum":
            out.append(table(["value", "meaning"], [[f"`{kebab(m)}`", cell(doc)] for m, _, doc, _ in members]))
            continue
        rows = []
        for member, type_, doc, attributes in members:
            can_miss = " *Omitted if empty.*" if "skip_serializing_if" in attributes else ""
            rows.append([f"`{member}`", words(type_, known), cell(doc) + can_miss])
            for other in re.findall(r"\w+", type_):
                if other in known and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        out.append(table(["field", "type", "meaning"], rows))
    return "\n".join(out)
