"""What the classes of sections have in common."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .experiment import InputFile


class Section:
    """A section of an experiment file. A field that is None is left to its default."""

    # Names that Python reserves, by the name of the field.
    _names: ClassVar[dict[str, str]] = {}

    def document(self, files: dict[str, str]) -> dict[str, Any]:
        """Return the section as values of a TOML document; texts of files in memory are added to `files`."""
        values = ((self._names.get(field.name, field.name), getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        document = {name: plain(value, files) for name, value in values if value is not None}
        if is_input(getattr(self, "workload", None)):
            document["workload"] = f"file:path={document['workload']}"
        return document


def plain(value: Any, files: dict[str, str]) -> Any:
    """Return a value as TOML has it: sections as tables, files in memory as their names, sequences as lists."""
    if isinstance(value, Section):
        return value.document(files)
    if is_input(value):
        files[value.name] = value.text
        return value.name
    if isinstance(value, type) and hasattr(value, "label"):
        # A balancer in Python, by its name.
        return value.label()
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(name): plain(inner, files) for name, inner in value.items() if inner is not None}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    try:
        items = list(value)
    except TypeError:
        raise TypeError(f"{value!r} has no counterpart in an experiment file") from None
    return [plain(item, files) for item in items]


def is_input(value: Any) -> bool:
    """Return whether a value is a file in memory."""
    from .experiment import InputFile

    return isinstance(value, InputFile)
