"""Hook of mkdocs: pages of the repository that are outside of docs/.

README.md is the first page of the site. A link from a page to another file of the
repository works in both places: that file becomes a part of the site, and a link to a
folder becomes its name.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "BUILD.md", "SECURITY.md"
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!\!)\[([^\]]+)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
IMAGE = re.compile(r"(!\[[^\]]*\]\()(?!\w+:)docs/")


def on_files(files, config):
    """Add the pages, and let README.md be the first one."""
    page_of_links = files.src_uris["index.md"]
    page_of_links.dest_uri = "pages.html"
    for name in PAGES:
        files.append(_file(config, name))
    # The order is that of mkdocs' own files, by name: README.md is no longer hidden.
    return Files(list(files))


def on_page_markdown(markdown, page, config, files):
    """Replace links that leave docs/, or come from outside of it."""
    home = ROOT if page.file.src_uri in PAGES else (DOCS / page.file.src_uri).parent
    here = Path(page.file.src_uri).parent

    def replaced(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        target = (home / path).resolve()
        if target.is_dir():
            return f"{text} (`{target.relative_to(ROOT)}/`)"
        if not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]  # mkdocs reports it
        inside = target.relative_to(DOCS if target.is_relative_to(DOCS) else ROOT)
        if inside.as_posix() not in files.src_uris:
            files.append(_file(config, inside.as_posix()))
        up = "../" * len(here.parts)
        return f"[{text}]({up}{inside.as_posix()}{anchor})"

    markdown = LINK.sub(replaced, markdown)
    return IMAGE.sub(r"\1", markdown) if home == ROOT else markdown


def _file(config, name):
    return File.generated(config, name, abs_src_path=str(ROOT / name))
