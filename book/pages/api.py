"""The HTTP API, from docs/openapi.json. A test compares that file with the API of the daemon."""

import json

from sources import cell, read, table

METHODS = ("get", "post", "put", "patch", "delete")
# Statuses that every path may return.
EVERYWHERE = {
    "400": "the body is not valid JSON",
    "401": "the token is missing or unknown",
    "403": "the role of the token is not sufficient, or a page of another site sent the request",
    "404": "no object has this name",
    "408": "the request did not arrive within `[limits] http_request_timeout`",
    "409": "the request conflicts with the present state",
    "412": "`If-Match` does not list the current revision of the object: another request has changed it",
    "413": "the body is too large",
    "415": "the content type of the body is not `application/json`",
    "421": "no tokens are configured, and the request names this machine by a name that `[api] names` does not list",
    "422": "a field is wrong; `field` names it",
    "429": "too many wrong tokens came from this address; `Retry-After` is the time to wait, in seconds",
    "503": "the daemon is shutting down",
    "507": "the disk did not accept the change",
}


def document():
    """Returns the description of the API."""
    return json.loads(read("docs/openapi.json"))


def reference(schema):
    """Returns a schema as text, with a link if it has a name."""
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
    """Returns the schema of a request or response body, of any content type."""
    kinds = (holder or {}).get("content", {})
    return next(iter(kinds.values())).get("schema") if kinds else None


def said(operation):
    """Returns the description of an operation as one paragraph."""
    return cell(" ".join(filter(None, (operation.get("summary"), operation.get("description")))))


def tables():
    """Returns a table of all calls and a table of the statuses."""
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
        raise SystemExit(f"error: docs/openapi.json has statuses without a description in book/pages/api.py: {', '.join(missing)}")
    statuses = [[code, words] for code, words in EVERYWHERE.items() if code in seen]
    return table(["call", "description", "request body", "response"], rows) + "\n## Statuses\n\n" + table(["status", "meaning"], statuses)


def types():
    """Returns a table for each type of the API."""
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
    """Returns the fields of an object, including those of its parts, and the names of the required fields."""
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
