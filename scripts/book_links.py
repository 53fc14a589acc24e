"""Checks the links of a built book: each internal link must lead to an existing file and anchor."""

import html.parser
import pathlib
import urllib.parse


class Page(html.parser.HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)
            if value and name in ("href", "src"):
                self.links.append(value)


def check(folder):
    """Prints the dead links of a built book and returns their number."""
    # 404.html has links for servers only; print.html repeats all pages.
    files = sorted(file for file in pathlib.Path(folder).rglob("*.html") if file.name not in ("404.html", "print.html"))
    pages = {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in files}
    wrong = count = 0
    for file, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            place = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                print(f"{file.name}: dead link `{link}`")
                wrong += 1
    print(f"{count} links in {len(pages)} pages, {wrong} dead")
    if not pages:
        print(f"{folder} has no pages")
    return wrong + (not pages)
