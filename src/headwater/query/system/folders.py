"""Texts without the folders of this machine, for those who may only ask the lake."""

from __future__ import annotations

import re
from dataclasses import replace

from headwater.core.errors import Code, HeadwaterError
from headwater.warehouse import Warehouse


def without_folders(warehouse: Warehouse, text: str) -> str:
    """A message with paths from the warehouse or the project on: where on the machine they lie is nobody else's."""
    found = {warehouse.context.warehouse.rstrip("/"), str(warehouse.project.root).rstrip("/")}
    places = sorted(filter(None, found), key=len, reverse=True)
    if not any(place in text for place in places):
        return text
    return re.sub("|".join(rf"(?:file:(?://)?)?{re.escape(place)}/?" for place in places), "", text)


def hide_folders(warehouse: Warehouse, error: HeadwaterError) -> None:
    """Take them out of an error's message and hint."""
    problem = error.problem
    if problem.code is Code.INTERNAL:
        return  # its log is its owner's to look for
    message = without_folders(warehouse, problem.message)
    hint = problem.hint and without_folders(warehouse, problem.hint)
    if (message, hint) != (problem.message, problem.hint):
        error.problem = replace(problem, message=message, hint=hint)
        error.args = (str(error.problem) if problem.excerpt is None else f"{error.problem}\n{problem.excerpt}",)
