#!/usr/bin/env python3
"""Checks a book that mdBook has built: links and pictures of every page lead to files and anchors in it.

  book-check.py DIRECTORY
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

book = Path(sys.argv[1])


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        for name in ("id", "name"):
            if named.get(name):
                self.ids.add(named[name])
        for name in ("href", "src"):
            if named.get(name):
                self.targets.add(named[name])
        for candidate in (named.get("srcset") or "").split(","):
            if candidate.strip():
                self.targets.add(candidate.split()[0])


# A page for a server that finds nothing has addresses from its root.
pages = {path.resolve(): Page(path) for path in book.rglob("*.html") if path.name != "404.html"}
wrong, seen = [], 0
for path, page in pages.items():
    for target in page.targets:
        link = urlsplit(target)
        if link.scheme or link.netloc:
            continue
        seen += 1
        file = (path.parent / unquote(link.path)).resolve() if link.path else path
        if not file.is_file():
            wrong.append(f"{path.relative_to(book.resolve())}: {target}: no such file")
        # All pages are on one to be printed, where titles repeat.
        elif link.fragment and file in pages and path.name != "print.html" and unquote(link.fragment) not in pages[file].ids:
            wrong.append(f"{path.relative_to(book.resolve())}: {target}: no such anchor")
for problem in sorted(wrong):
    print(f"error: {problem}", file=sys.stderr)
if wrong or len(pages) < 40 or seen < 1000:
    sys.exit(f"error: {len(wrong)} dead links; {len(pages)} pages, {seen} links")
print(f"docs: {len(pages)} pages, {seen} links, none of them dead")
