"""Prints what it was given."""

import sys

from benchmarks.inside import session

with session.result_line() as result:
    result.update(session.json_flags(sys.argv[1:], "work", "options"))
