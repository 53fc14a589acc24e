"""A page for each notebook: its text as it is, its code as blocks, and its outputs."""

import json
import re

import documents
from balancers import chapter
from sources import ROOT, Mistake, read, table

FOLDER = "notebooks"


def paths():
    """Returns the paths of all notebooks, in order."""
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / FOLDER).glob("*.ipynb"))]


def joined(text):
    """Returns a text of a notebook, which may be a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def cells(path):
    """Returns the cells of a notebook."""
    found = json.loads(read(path))["cells"]
    if not joined(found[0]["source"]).startswith("# "):
        raise Mistake(f"{path} must begin with a cell that has its title, as `# TITLE`, and a paragraph")
    return found


def introduction(path):
    """Returns the title and the first paragraph of a notebook."""
    parts = joined(cells(path)[0]["source"]).split("\n\n")
    return parts[0].removeprefix("# "), " ".join(parts[1].split())


def place(path):
    """Returns the path of a notebook's page."""
    return path.replace(".ipynb", ".md")


def overview():
    """Returns a table of all notebooks."""
    rows = [[f"[{title}]({place(path)})", text] for path in paths() for title, text in [introduction(path)]]
    return table(["notebook", "content"], rows)


def page(path):
    """Returns the page of a notebook, with comments for scripts/check-book."""
    out = []
    for cell in cells(path):
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            out.append(documents.adapted(source, path, place(path)))
            continue
        out.append(f"<!-- check: by python -->\n```python\n{source}\n```")
        out += filter(None, (shown(output, cell["metadata"].get("alt", "figure")) for output in cell["outputs"]))
    out.insert(1, f"This page is the notebook `{path}`.")
    return "\n\n".join(out) + "\n"


def shown(output, alt):
    """Returns an output as Markdown: a figure, a table, or text. Warnings are not shown."""
    if output["output_type"] == "stream":
        return f"```text\n{joined(output['text']).rstrip()}\n```" if output["name"] == "stdout" else ""
    data = output["data"]
    if "image/png" in data:
        return f"![{alt}](data:image/png;base64,{''.join(joined(data['image/png']).split())})"
    # Of the HTML of a result only tables are shown, without the style that the package adds.
    rows = re.search(r"<table.*?</table>", joined(data.get("text/html", "")), re.DOTALL)
    if rows:
        plain = rows.group().replace("&quot;", "").replace("\n", "")
        return f'<div class="table-wrapper">\n{plain}\n</div>'
    return f"```text\n{joined(data['text/plain'])}\n```"


def chapters(parent):
    """Returns the chapters of all notebooks, below the chapter of the overview."""
    return [
        chapter(introduction(path)[0], page(path), [*(parent["number"] or []), at], place(path), [*parent["parent_names"], parent["name"]])
        for at, path in enumerate(paths(), 1)
    ]
