"""Refusal of a request, with its HTTP status."""

from __future__ import annotations

GONE = 499  # status of requests whose client is gone, in measures only


class Refused(Exception):
    """Request that gets no decision.

    Attributes:
      status: HTTP status.
      retry_seconds: seconds after which the same request may succeed, or None.
    """

    def __init__(self, status: int, message: str, retry_seconds: int | None = None):
        super().__init__(message)
        self.status, self.retry_seconds = status, retry_seconds
