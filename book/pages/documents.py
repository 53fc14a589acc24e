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
    text = read(path)
    text = re.sub(r"\A# .*\n", "", text)

    def fitted(found):
        image, words, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found.group(0)
        file, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if file not in CHAPTERS:
            return f"{words} (`{file}`)" if words.strip("`") != file else f"`{file}`"
        there = posixpath.relpath(CHAPTERS[file], posixpath.dirname(chapter) or ".")
        return f"{image}[{words}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(fitted, text)
