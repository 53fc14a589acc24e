"""Preprocessor of mdBook: generates pages from the code and includes documents of the repository.

mdBook writes a book as JSON to standard input and reads it back from standard output. In chapters
the preprocessor replaces

    {{generated NAME}}      by the output of a generator below, such as `keys`
    {{document PATH}}       by a document of the repository, without its title, with adapted links

and adds a chapter for each balancer below the chapter `balancers.md`, and for each notebook below
`notebooks.md`. It removes the comments
`<!-- check: … -->`, which are for scripts/check-book. Generated text comes from the binary
(`ANABRANCH`, or target/release/anabranch) and from the headers of source files.
"""

import json
import re
import sys

import api
import balancers
import documents
import notebooks
import python_api
import reference
import schema
from sources import Mistake

GENERATORS = {
    "keys": reference.keys,
    "topologies": lambda: reference.listing("topologies"),
    "workloads": lambda: reference.listing("workloads"),
    "patterns": lambda: reference.listing("patterns"),
    "arrivals": lambda: reference.listing("arrivals"),
    "collectives": lambda: reference.listing("collectives"),
    "transports": lambda: reference.listing("transports"),
    "addressing": lambda: reference.listing("addressing"),
    "settings": reference.settings,
    "metrics": reference.metrics,
    "commands": reference.commands,
    "balancers": balancers.overview,
    "notebooks": notebooks.overview,
    "summary": schema.tables,
    "api": api.tables,
    "api-types": api.types,
    "python": python_api.page,
}
MARKER = re.compile(r"^\{\{(generated|document) ([^}]+)\}\}$", re.MULTILINE)
CHECK = re.compile(r"^<!-- check:.*?-->\n", re.MULTILINE | re.DOTALL)


def expand(chapter):
    """Returns the content of a chapter with all markers replaced."""

    def replacement(found):
        kind, name = found.groups()
        if kind == "document":
            return documents.included(name, chapter["path"])
        if name not in GENERATORS:
            raise Mistake(f"{chapter['path']}: unknown generator `{name}`; known generators: {', '.join(GENERATORS)}")
        return GENERATORS[name]()

    return without_checks(MARKER.sub(replacement, chapter["content"]))


def without_checks(text):
    """Returns the text without the comments for scripts/check-book."""
    return CHECK.sub("", text)


def walk(items):
    """Expands all chapters and adds those of the balancers."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        chapter["content"] = expand(chapter)
        if chapter["path"] == "balancers.md":
            made = balancers.chapters(chapter)
            for family in made:
                for page in family["Chapter"]["sub_items"]:
                    page["Chapter"]["content"] = without_checks(page["Chapter"]["content"])
            chapter["sub_items"] += made
        elif chapter["path"] == "notebooks.md":
            chapter["sub_items"] += notebooks.chapters(chapter)
            for page in chapter["sub_items"]:
                page["Chapter"]["content"] = without_checks(page["Chapter"]["content"])
        else:
            walk(chapter["sub_items"])


def main():
    """Runs the preprocessor."""
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    try:
        walk(book["items"])
    except Mistake as mistake:
        sys.exit(f"error: {mistake}")
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
