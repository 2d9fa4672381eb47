"""Settings of the server."""

from __future__ import annotations

import dataclasses
import ipaddress

from tfagents_batch.config import option
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Settings of the server, which are flags of ``tfagents-batch serve``."""

    export: str = option("", "folder of an ONNX export; required")
    port: int = option(8080, "port; 0 takes a free one", least=0, most=65535)
    host: str = option("127.0.0.1", "address; one of another machine needs a token")
    log: str = option("", "folder of the decisions; empty: they are not logged")
    token: str = option(
        "", "requests need Authorization: Bearer <token>; or TFAGENTS_BATCH_TOKEN"
    )
    admin_token: str = option(
        "",
        "token of requests that change the export; or TFAGENTS_BATCH_ADMIN_TOKEN; "
        "empty: refused",
    )
    tls_certificate: str = option("", "file of a certificate chain, PEM; empty: no TLS")
    tls_key: str = option("", "file of its private key, PEM")
    max_wait_ms: float = option(
        100.0, "milliseconds that a decision may wait; 429 beyond it", above=0
    )
    max_batch: int = option(64, "decisions in one run of the model", least=1)
    max_body: int = option(4 * 2**20, "bytes of a request; 413 beyond it", least=1)
    request_seconds: float = option(
        5.0, "seconds in which a body has to arrive; 408 after it", above=0
    )
    idle_seconds: float = option(
        30.0, "seconds in which the head of the next request has to arrive", above=0
    )
    threads: int = option(1, "threads of a run of the model", least=1)
    rotate_rows: int = option(100_000, "decisions after which a file ends", least=1)
    rotate_seconds: float = option(600.0, "seconds after which a file ends", above=0)


def check(settings: ServerSettings) -> None:
    """Refuse settings that cannot be served with a UserError."""
    if not settings.export:
        raise UserError("no export is given; pass --export=<folder of an export>")
    if not settings.token and not is_loopback(settings.host):
        raise UserError(
            f"--host={settings.host} can be reached from other machines; pass --token, "
            "or set TFAGENTS_BATCH_TOKEN, or use --host=127.0.0.1"
        )
    if settings.admin_token and settings.admin_token == settings.token:
        raise UserError(
            "--token and --admin_token are the same, so everyone who may ask may "
            "change the export; pass two different ones"
        )
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise UserError("TLS needs both --tls_certificate and --tls_key; pass both")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
