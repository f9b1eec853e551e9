"""Where the feeds of a table lie."""

from __future__ import annotations

import hashlib
import re

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.relocation import inside

FEEDS = "_headwater/feeds"


def feed_folder(address: Address, context: LakeContext) -> str:
    """The folder of a table's feeds; those that an earlier release began go by the whole path."""
    place = None if address.path is None else inside(address.path, context.warehouse)
    earlier = f"{FEEDS}/{safe_name(str(address))}"
    if place is None or Files(context.warehouse, context.storage).exists(earlier):
        return earlier
    return f"{FEEDS}/{safe_name(place)}"


def safe_name(name: str) -> str:
    """A name as a folder: readable, and different for different names."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    if plain == name:
        return plain
    return f"{plain[-60:]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
