"""Description of the endpoints for people and programs."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

import tfagents_batch
from tfagents_batch.serving.description import Description

Json = dict[str, Any]
_REQUIRED = "request_id", "reward", "export"  # entries of bodies; others are optional
_EXPORT = {"export": {"type": "string"}}
_OF_A_DRAW = "propensity", "log_density"  # outputs that predictions do not have
_ERRORS = {
    "401": "the token is missing or wrong",
    "403": "the client has no right to this",
    "408": "the body did not arrive in time",
    "413": "the body is too long",
    "422": "the body is no JSON or has wrong values; error says what and where",
    "429": "it would wait too long; Retry-After says when to try again",
    "503": "the decision or the feedback could not be logged; nothing was decided",
}


def document(description: Description, token: bool) -> Json:
    """Return the OpenAPI document of a server, whose requests may need a token."""
    result: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": f"Decisions of {description.name}",
            "version": tfagents_batch.__version__,
            "description": f"Policy {description.version}, {description.algorithm}.",
        },
        "paths": _paths(description),
    }
    if token:
        scheme = {"token": {"type": "http", "scheme": "bearer"}}
        result["components"] = {"securitySchemes": scheme}
        result["security"] = [{"token": []}]
    return result


def page(document: Json) -> str:
    """Return the document as a page without scripts."""
    title = html.escape(document["info"]["title"])
    about = html.escape(document["info"]["description"])
    paths = html.escape(json.dumps(document["paths"], indent=2))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title><h1>{title}</h1><p>{about} As JSON: "
        f"<a href='openapi.json'>openapi.json</a></p><pre>{paths}</pre></html>"
    )


def schema(space: Json) -> Json:
    """Return the JSON schema of the values of a space."""
    kind = space["type"]
    if kind == "Dict":
        return _object({key: schema(x) for key, x in space["spaces"].items()})
    if kind == "Tuple":
        inner = [schema(x) for x in space["spaces"]]
        return {"type": "array", "prefixItems": inner, "items": False}
    if kind == "Discrete":
        start = space["start"]
        return {"type": "integer", "minimum": start, "maximum": start + space["n"] - 1}
    if kind == "Box":
        return _array(space["shape"], space["dtype"])
    size = space["n"] if kind == "MultiBinary" else np.shape(space["nvec"])
    return _array(np.atleast_1d(size).tolist(), "int")


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _array(shape: Sequence[int], dtype: str) -> Json:
    items: Json = {"type": "integer" if "int" in dtype else "number"}
    for size in reversed(shape):
        items = {"type": "array", "items": items, "minItems": size, "maxItems": size}
    return items


def _paths(description: Description) -> Json:
    action, text = schema(description.action_space), {"type": "string"}
    known: Json = {"action": action}
    if description.actions is not None:
        known["action_name"] = text
    if description.is_recurrent:
        known["state"] = {"type": "array"}
    outputs = {
        x.name: _array(x.shape, x.dtype)
        for x in description.outputs
        if x.name not in known and x.role not in ("next_state", "action")
    }
    drawn = {k: outputs[k] for k in ("sample", *_OF_A_DRAW) if k in outputs}
    answer = known | drawn | {"request_id": text, "model_version": text}
    prediction = known | {k: x for k, x in outputs.items() if k not in _OF_A_DRAW}
    prediction["model_version"] = text
    asked = _asked(description)
    feedback = {
        "request_id": text,
        "reward": {"type": "number"},
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
        "metrics": {"type": "object", "additionalProperties": {"type": "number"}},
        "final_observation": asked["observation"],
        "final_possible_actions": {"type": "array"},
    }
    flag = {"type": "boolean"}
    logged = {"request_id": text, "logged": flag, "known": flag}
    rows = [
        ("/v1/act", "post", "Draw an action and log it", asked, answer),
        ("/v1/predict", "post", "Return greedy actions and values", asked, prediction),
        ("/v1/feedback", "post", "Log what followed a decision", feedback, logged),
        ("/v1/model", "get", "Describe the export that answers", None, None),
        ("/v1/model", "post", "Let another export take over", _EXPORT, None),
        ("/v1/rollback", "post", "Let the previous export take over", None, None),
        ("/healthz", "get", "Say that the process lives", None, None),
        ("/readyz", "get", "Say that requests are taken", None, None),
        ("/metrics", "get", "Return measures as Prometheus text", None, None),
    ]
    paths: Json = {}
    for path, method, *operation in rows:
        paths.setdefault(path, {})[method] = _operation(*operation)
    return paths


def _asked(description: Description) -> Json:
    if description.is_by_id:
        number = {"type": ["number", "null"]}
        names = {k: x for x, k in description.names.items()}
        observation = _object(
            {names.get(x, str(x)): number for x in description.features or ()}
        )
        for name, values in description.categories.items():
            category = {"type": ["string", "null"], "examples": list(values)}
            observation["properties"][name] = category
    else:
        observation = schema(description.observation_space)
    properties = {
        "observation": observation,
        "observations": {"type": "array", "items": observation},
        "mdp_id": {"type": "string"},
        "sequence_number": {"type": "integer"},
    }
    if description.is_discrete:
        start = description.start
        numbers = [start + k for k in range(description.action_space["n"])]
        items = {"enum": [*description.action_names, *numbers]}
        properties["possible_actions"] = {
            "type": "array",
            "items": items,
            "minItems": 1,
        }
    if description.is_recurrent:
        properties |= {"episode_start": {"type": "boolean"}, "state": {"type": "array"}}
    return properties


def _operation(summary: str, asked: Json | None, answer: Json | None) -> Json:
    good: Json = {"description": "done"}
    if answer is not None:
        good |= _content({"type": "object", "properties": answer})
    operation: Json = {"summary": summary, "responses": {"200": good}}
    if asked is not None:
        required = [x for x in asked if x in _REQUIRED]
        operation["requestBody"] = _content(_object(asked) | {"required": required})
        operation["responses"] |= {k: {"description": x} for k, x in _ERRORS.items()}
    return operation


def _content(inner: Json) -> Json:
    return {"content": {"application/json": {"schema": inner}}}
