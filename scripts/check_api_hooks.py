"""A further check of schemathesis: a rejected call leaves services, pools and the balancer unchanged."""

import json
import os
import urllib.request

import schemathesis

URL = os.environ["CHECK_API_URL"].rstrip("/")
CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
before = {}


def settings(item):
    """Returns an object without the fields that change on their own: states of members and their load."""
    if isinstance(item, list):
        return [settings(one) for one in item]
    if not isinstance(item, dict):
        return item
    return {key: settings(value) for key, value in item.items() if key not in ("state", "state_detail", "stats")}


def state():
    """Returns the current services, pools and balancer."""
    answers = []
    for path in ("/v1/services", "/v1/pools", "/v1/balancer"):
        with urllib.request.urlopen(URL + path, timeout=10) as answer:
            answers.append(settings(json.load(answer)))
    return answers


@schemathesis.hook
def before_call(context, case, kwargs):
    """Stores the state before a change."""
    if case.method.upper() in CHANGES:
        before["state"] = state()


@schemathesis.check
def unchanged_when_refused(ctx, response, case):
    """Fails if a rejected call changed the state."""
    if case.method.upper() in CHANGES and response.status_code >= 400:
        assert state() == before["state"], f"{case.method} {case.path} was rejected ({response.status_code}) but changed the state"
