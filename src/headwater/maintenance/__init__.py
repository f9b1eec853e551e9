"""Looks after the lake's files alongside ingest: compaction, clustering, expiry, clean-up."""
