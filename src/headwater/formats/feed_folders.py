"""Where the feeds of a table lie."""

from __future__ import annotations

import hashlib
import json
import re

from headwater.core.model import Version
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.relocation import inside

FEEDS = "_headwater/feeds"
STATE = "_feed.json"
"""In the folder of a feed: how far it is."""


def feed_folder(address: Address, context: LakeContext) -> str:
    """The folder of a table's feeds; those that an earlier release began go by the whole path."""
    place = None if address.path is None else inside(address.path, context.warehouse)
    earlier = f"{FEEDS}/{safe_name(str(address))}"
    if place is None or Files(context.warehouse, context.storage).exists(earlier):
        return earlier
    return f"{FEEDS}/{safe_name(place)}"


def feed_versions(address: Address, context: LakeContext) -> dict[str, Version]:
    """By consumer, the version that its feed goes on from."""
    files = Files(context.warehouse, context.storage)
    found: dict[str, Version] = {}
    for folder in files.list(feed_folder(address, context)):
        state = files.find(f"{folder.path}/{STATE}")
        version = None if state is None else json.loads(state).get("version")
        if version is not None:
            found[folder.path.rstrip("/").rpartition("/")[2]] = int(version)
    return found


def safe_name(name: str) -> str:
    """A name as a folder: readable, and different for different names."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    if plain == name:
        return plain
    return f"{plain[-60:]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
