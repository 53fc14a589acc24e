"""Documents of the repository in the book: written once, and read here too."""

import posixpath
import re

from sources import read

# Where documents of the repository are read in the book.
CHAPTERS = {
    "CONTRIBUTING.md": "writing-a-balancer.md",
    "docs/services.md": "services.md",
    "docs/floodlight.md": "floodlight.md",
    "docs/openapi.json": "reference/api.md",
    "docs/storms.md": "storms.md",
    "docs/canon.md": "canon.md",
    "docs/reproduction.md": "reproduction.md",
    "testbed/README.md": "testbed.md",
    "experiments/balancers/README.md": "balancers.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def included(path, chapter):
    """A document without its title, with links that fit the chapter it is read in. What the book does not hold is named by its path."""
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
