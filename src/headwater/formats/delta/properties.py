"""The table properties that both sides read and write."""

from __future__ import annotations

LAYOUT = "headwater.layout"
"""The layout as it was asked for."""
OLDEST = "headwater.oldest_version"
"""The oldest version that can still be read."""
FEED = "delta.enableChangeDataFeed"
MAPPING = "delta.columnMapping.mode"
PHYSICAL = "delta.columnMapping.physicalName"
"""Of a field: what it is called in files."""
WENT = ("delete", "update_preimage")
"""Kinds of change in the feed whose row is no longer there."""
CLUSTERED = "headwater.clustered_by"
"""The tag of a file that a rewrite has sorted: by which columns."""
