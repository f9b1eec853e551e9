"""Make the tables in the documentation again: `python docs/refresh.py`."""

from __future__ import annotations

from pathlib import Path

from headwater.project.reference import refreshed

for page in sorted(Path(__file__).parent.glob("**/*.md")):
    text = page.read_text(encoding="utf-8")
    if (new := refreshed(text)) != text:
        page.write_text(new, encoding="utf-8")
        print(f"refreshed {page.name}")
