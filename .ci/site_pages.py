"""Hook of mkdocs: pages of the repository that are outside of docs/, and docstrings.

README.md is the first page of the site. A link from a page to another file of the
repository works in both places: that file becomes a part of the site, and a link to a
folder, or to a page that the site lacks, becomes its name.
"""

import re
from pathlib import Path

from markdown import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "BUILD.md", "SECURITY.md"),
    "examples/README.md",
)
LINK = re.compile(r"(?<!\!)\[([^\]]+)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
UNLINKED = re.compile(r'title="(tfagents_batch[\w.]*\.[A-Z][a-z]\w*)"')
IMAGE = re.compile(r"(!\[[^\]]*\]\()(?!\w+:)docs/")


def on_config(config):
    """Read Markdown as it is written here; mkdocs does not check the other files."""
    for name in (*config.extra_css, *config.extra["polyfills"]):
        if str(name).startswith("site/") and not (DOCS / str(name)).is_file():
            raise PluginError(f"mkdocs.yml names docs/{name}, which does not exist")
    config.markdown_extensions.append(Plain())


def on_files(files, config):
    """Add the pages, and let README.md be the first one."""
    files.src_uris["index.md"].dest_uri = "pages.html"
    for name in PAGES:
        files.append(_file(config, name))
    return files


def on_page_markdown(markdown, page, config, files):
    """Replace links that leave docs/, or come from outside of it."""
    outside = page.file.src_uri in PAGES
    home = ((ROOT if outside else DOCS) / page.file.src_uri).parent
    up = "../" * (len(Path(page.file.src_uri).parts) - 1)

    def replaced(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        target = (home / path).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]  # mkdocs reports it
        inside = target.relative_to(DOCS if target.is_relative_to(DOCS) else ROOT)
        name = inside.as_posix()
        if name not in files.src_uris:
            if target.is_dir() or target.suffix == ".md":
                return f"{text} (`{name}`)"
            files.append(_file(config, name))
        return f"[{text}]({up}{name}{anchor})"

    markdown = LINK.sub(replaced, markdown)
    return IMAGE.sub(r"\1", markdown) if outside else markdown


def on_post_build(config):
    """Refuse types of the package that signatures name and no page explains."""
    pages = Path(config.site_dir, "reference").glob("*.html")
    names = {name for page in pages for name in UNLINKED.findall(page.read_text())}
    if names:
        raise PluginError(f"no page of docs/reference has {', '.join(sorted(names))}")


def _file(config, name):
    return File.generated(config, name, abs_src_path=str(ROOT / name))


class Plain(Extension):
    """Markdown in which s_t is no emphasis, and a doctest is code."""

    def extendMarkdown(self, md):
        md.delimiters.remove("_")
        md.preprocessors.register(Doctests(md), "doctests", 50)


class Doctests(Preprocessor):
    """Put lines from >>> to the next empty line between fences."""

    def run(self, lines):
        found, fenced, doctest = [], False, False
        for line in [*lines, ""]:
            if line.startswith("```"):
                fenced = not fenced
            if doctest and not line.strip():
                found.append("```")
                doctest = False
            elif not fenced and not doctest and line.startswith(">>> "):
                found += ["", "```pycon"]
                doctest = True
            found.append(line)
        return found
