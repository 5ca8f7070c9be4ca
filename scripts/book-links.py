#!/usr/bin/env python3
"""A preprocessor of mdBook: the book has no files outside of docs/, so links to them become their names.

With `output.html.git-repository-url`, as MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL sets it, they lead there instead.
"""

import json
import os
import re
import sys

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```")


def outside(page, target):
    """The file that a link of a page of docs/ is for, from the root of the repository, if it is not in docs/."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return None
    path = os.path.normpath(os.path.join("docs", os.path.dirname(page), target.split("#")[0]))
    return None if path == "docs" or path.startswith("docs/") else path


def rewritten(text, page, repository):
    def replace(link):
        words, target = link.groups()
        path = outside(page, target)
        if path is None:
            return link[0]
        if repository:
            return f"[{words}]({repository.rstrip('/')}/blob/HEAD/{path})"
        name = path.rsplit("/", 1)[-1]
        return f"`{path}`" if words.strip("`") in (path, name) else f"{words} (`{path}`)"

    lines, is_code = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            is_code = not is_code
        lines.append(line if is_code else LINK.sub(replace, line))
    return "\n".join(lines)


def walk(items, repository):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter["path"]:
                chapter["content"] = rewritten(chapter["content"], chapter["path"], repository)
            walk(chapter["sub_items"], repository)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    html = context["config"].get("output", {}).get("html", {})
    walk(book["items"], html.get("git-repository-url"))
    json.dump(book, sys.stdout)


main()
