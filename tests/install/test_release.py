"""One version everywhere."""

import re

import tfagents_batch
from tests.install.extras import ROOT


def test_the_changelog_and_the_citation_have_the_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    version, date = re.fullmatch(r"(\S+) - (\d{4}-\d\d-\d\d)", headings[1]).groups()
    cited = (ROOT / "CITATION.cff").read_text()
    assert version == tfagents_batch.__version__
    assert f"version: {version}\ndate-released: {date}\n" in cited
