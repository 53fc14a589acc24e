"""The HTTP API, out of docs/openapi.json, which a test compares with what the daemon serves."""

import json

from sources import cell, read, table

METHODS = ("get", "post", "put", "patch", "delete")
# Answers that every path may give.
EVERYWHERE = {
    "400": "the body is no JSON",
    "401": "no token, or none that is known",
    "403": "the token's role is not enough, or the page of another site asks",
    "404": "there is nothing of this name",
    "409": "it does not go with what is there",
    "413": "the body is too large",
    "415": "the body is not `application/json`",
    "422": "a field is wrong; `field` says which",
    "503": "the daemon is ending",
    "507": "the disk did not take it",
}


def document():
    """The description of the API."""
    return json.loads(read("docs/openapi.json"))


def reference(schema):
    """A schema in words, with a link where it has a name."""
    if schema is None:
        return "–"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(reference(one) for one in schema[several]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(reference({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {reference(schema.get('items'))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object: {reference(schema['additionalProperties'])} by name"
    return {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}.get(kind, kind)


def content(holder):
    """The schema of a body or an answer, whatever its content type."""
    kinds = (holder or {}).get("content", {})
    return next(iter(kinds.values())).get("schema") if kinds else None


def said(operation):
    """What an operation does, in one paragraph."""
    return cell(" ".join(filter(None, (operation.get("summary"), operation.get("description")))))


def tables():
    """A table of all calls, and one of the statuses."""
    rows, seen = [], set()
    for path, operations in document()["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            operation = operations[method]
            answers = operation["responses"]
            good = next((code for code in ("200", "201", "204") if code in answers), None)
            seen.update(answers)
            rows.append(
                [
                    f"`{method.upper()} {path}`",
                    said(operation),
                    reference(content(operation.get("requestBody"))),
                    reference(content(answers.get(good))),
                ]
            )
    missing = sorted(code for code in seen if code >= "300" and code not in EVERYWHERE)
    if missing:
        raise SystemExit(f"error: docs/openapi.json has statuses that the book has no words for: {', '.join(missing)}")
    statuses = [[code, words] for code, words in EVERYWHERE.items() if code in seen]
    return table(["call", "what it does", "body", "answer"], rows) + "\n## Statuses\n\n" + table(["status", "meaning"], statuses)


def types():
    """A table for each type of the API."""
    out = []
    for name, schema in document()["components"]["schemas"].items():
        out.append(f"### {name}\n\n{cell(schema.get('description', ''))}\n")
        properties, required = properties_of(schema)
        if properties:
            rows = [
                [f"`{field}`" + ("" if field in required else " (optional)"), reference(one), cell(one.get("description", ""))]
                for field, one in properties.items()
            ]
            out.append(table(["field", "type", "meaning"], rows))
        else:
            out.append(f"{reference(schema)}\n")
    return "\n".join(out)


def properties_of(schema):
    """Fields of an object, those of what it is made of included, and which of them are required."""
    properties, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
    for part in schema.get("allOf", ()):
        more, needed = properties_of(part)
        properties |= more
        required |= needed
        if "$ref" in part:
            named = document()["components"]["schemas"][part["$ref"].rpartition("/")[2]]
            more, needed = properties_of(named)
            properties, required = more | properties, required | needed
    return properties, required
