"""The real services that exports go to, started once."""

from __future__ import annotations

from tests.sources.conftest import kafka, postgres_server, registry

__all__ = ["kafka", "postgres_server", "registry"]
