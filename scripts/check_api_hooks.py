"""What schemathesis checks besides: services and pools are what they were after a call that was refused."""

import json
import os
import urllib.request

import schemathesis

URL = os.environ["CHECK_API_URL"].rstrip("/")
CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
before = {}


def facts(item):
    """An object without what changes by itself: states of members and their traffic."""
    if isinstance(item, list):
        return [facts(one) for one in item]
    if not isinstance(item, dict):
        return item
    return {key: facts(value) for key, value in item.items() if key not in ("state", "state_words", "load")}


def state():
    """Services, pools and the balancer as they are now."""
    answers = []
    for path in ("/v1/services", "/v1/pools", "/v1/balancer"):
        with urllib.request.urlopen(URL + path, timeout=10) as answer:
            answers.append(facts(json.load(answer)))
    return answers


@schemathesis.hook
def before_call(context, case, kwargs):
    """Remembers what there is."""
    if case.method.upper() in CHANGES:
        before["state"] = state()


@schemathesis.check
def unchanged_when_refused(ctx, response, case):
    """Whether a refused call changed something."""
    if case.method.upper() in CHANGES and response.status_code >= 400:
        assert state() == before["state"], f"{case.method} {case.path} was refused ({response.status_code}) and changed something"
