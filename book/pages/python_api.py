"""The reference of the Python package, from the docstrings of its sources."""

import ast
import inspect

from sources import read

FOLDER = "python/anabranch"
# Modules in the order of the page; those that begin with `_generated` come last, because they are long.
MODULES = ["experiment", "topology", "results", "balancer", "bounds", "registries", "environment", "_generated"]
# Names of modules whose content is not for users, apart from these.
ONLY = {"environment": ["FabricEnv", "asymmetric_leaf_spine"], "balancer": ["Balancer", "SwitchBalancer", "EdgeBalancer", "check_balancer"]}
HIDDEN = {"Bar", "Plot.__init__", "Fields"}


def page():
    """Returns the page."""
    out = []
    for module in MODULES:
        tree = ast.parse(read(f"{FOLDER}/{module}.py"))
        for item in tree.body:
            if isinstance(item, (ast.ClassDef, ast.FunctionDef)) and is_public(module, item):
                out.append(described(module, item))
    return "\n".join(out)


def is_public(module, item):
    """Returns whether an item is part of the interface."""
    if item.name.startswith("_") or item.name in HIDDEN:
        return False
    return module not in ONLY or item.name in ONLY[module]


def described(module, item):
    """Returns the text of a class or a function."""
    name = f"{module}.{item.name}" if module in ("bounds", "environment") else item.name
    if isinstance(item, ast.FunctionDef):
        return f"## `{name}`\n\n{signature(item)}\n\n{doc(item)}\n"
    out = f"## `{name}`\n\n{doc(item)}\n"
    fields = list(fields_of(item))
    if fields:
        out += "\n| field | type | meaning |\n| --- | --- | --- |\n"
        out += "".join(f"| `{name}` | {code(kind)} | {cell(text)} |\n" for name, kind, text in fields)
    for method in item.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
            out += f"\n### `{item.name}.{method.name}`\n\n{signature(method)}\n\n{doc(method)}\n"
    return out


def fields_of(item):
    """Returns the fields of a class that have a docstring: name, type, meaning."""
    for field, text in zip(item.body, item.body[1:]):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        if isinstance(field, ast.AnnAssign) and is_text:
            yield field.target.id, ast.unparse(field.annotation).removesuffix(" | None"), text.value.value


def signature(function):
    """Returns the parameters of a function as code."""
    arguments = ast.unparse(function.args).removeprefix("self, ").removeprefix("cls, ")
    arguments = "" if arguments in ("self", "cls") else arguments
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"`{function.name}({arguments}){returns}`"


def doc(item):
    """Returns a docstring as Markdown: lines `name: meaning` become a list."""
    lines = inspect.cleandoc(ast.get_docstring(item) or "").splitlines()
    out, in_list = [], False
    for line in lines:
        head, colon, _ = line.partition(": ")
        is_item = bool(colon) and head.isidentifier()
        if is_item and not in_list and out and out[-1]:
            out.append("")
        in_list = is_item or (in_list and line.startswith("    "))
        out.append(f"- `{head}`: {line[len(head) + 2:]}" if is_item else line)
    return "\n".join(out).replace("<", "&lt;")


def code(text):
    """Returns a type as code in a cell of a table."""
    return f"`{text}`".replace("|", "\\|")


def cell(text):
    """Returns a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
