"""Benchmarks: ratios measured side by side, on the same work (docs/benchmarks.md).

A *contender* is a small file in ``contenders/`` that does given work in a process. A
*row* (``measure/rows.py``) says which contenders do which work.
"""
