"""Documents of the repository that the book includes, so that each has one source."""

import posixpath
import re

from sources import read

# The chapter of the book that includes each document.
CHAPTERS = {
    "CONTRIBUTING.md": "writing-a-balancer.md",
    "docs/services.md": "services.md",
    "docs/floodlight.md": "floodlight.md",
    "docs/bgp.md": "bgp.md",
    "docs/openapi.json": "reference/api.md",
    "docs/simtest.md": "simtest.md",
    "docs/canon.md": "canon.md",
    "docs/canon-matrix.md": "canon-matrix.md",
    "docs/ai.md": "ai.md",
    "docs/controller.md": "controller.md",
    "docs/addressing.md": "addressing.md",
    "docs/engine.md": "engine.md",
    "docs/glossary.md": "glossary.md",
    "docs/reproduction.md": "reproduction.md",
    "testbed/README.md": "testbed.md",
    "experiments/balancers/README.md": "balancers.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def included(path, chapter):
    """Returns a document without its title, with links adapted to its chapter.

    A link to a file outside the book becomes the path of the file.
    """
    return adapted(re.sub(r"\A# .*\n", "", read(path)), path, chapter)


def chapter_of(file):
    """Returns the chapter that shows a file of the repository, or None."""
    if posixpath.dirname(file) == "notebooks":
        return file.replace(".ipynb", ".md")
    return CHAPTERS.get(file)


def adapted(text, path, chapter):
    """Returns a text of the document `path` with links adapted to its chapter."""

    def fitted(found):
        image, words, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found.group(0)
        file, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if chapter_of(file) is None:
            return f"{words} (`{file}`)" if words.strip("`") != file else f"`{file}`"
        there = posixpath.relpath(chapter_of(file), posixpath.dirname(chapter) or ".")
        return f"{image}[{words}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(fitted, text)
