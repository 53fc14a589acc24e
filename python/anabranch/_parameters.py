"""Names with parameters, such as `fat-tree:k=8`."""

from __future__ import annotations

from typing import Mapping


def spec_text(name: str, parameters: Mapping[str, object]) -> str:
    """Return a name with its parameters; those that are None are left out."""
    given = [f"{key}={_value(value)}" for key, value in parameters.items() if value is not None]
    return f"{name}:{','.join(given)}" if given else name


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "/".join(_value(item) for item in value)
    return str(value)
