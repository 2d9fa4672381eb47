"""Description of the endpoints for people and programs."""

from __future__ import annotations

import html
import json
from typing import Any

import tfagents_batch
from tfagents_batch.serving.description import Description

Json = dict[str, Any]
_ERRORS = {
    "401": "the token is missing or wrong",
    "408": "the request did not arrive in time",
    "413": "the body is too long",
    "422": "the body is no JSON or has wrong values; error says what and where",
    "429": "too many decisions wait; Retry-After says when to try again",
    "503": "the decision or the feedback could not be logged; nothing was decided",
}


def document(description: Description, token: bool) -> Json:
    """Return the OpenAPI document of the server.

    Args:
      description: of the export.
      token: whether requests need a token.
    """
    found: Json = {
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
        found |= {
            "components": {"securitySchemes": scheme},
            "security": [{"token": []}],
        }
    return found


def page(document: Json) -> str:
    """Return the document as a page without scripts."""
    parts = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = html.escape(json.dumps(operation, indent=2))
            title = html.escape(f"{method.upper()} {path}")
            summary = html.escape(operation["summary"])
            parts.append(
                f"<details><summary><b>{title}</b> {summary}</summary>"
                f"<pre>{text}</pre></details>"
            )
    title = html.escape(document["info"]["title"])
    about = html.escape(document["info"]["description"])
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title><body style='font-family:sans-serif;margin:2em'>"
        f"<h1>{title}</h1><p>{about} As JSON: <a href='openapi.json'>openapi.json</a>"
        f"</p>{''.join(parts)}</body></html>"
    )


def schema(space: Json) -> Json:
    """Return the JSON schema of the values of a space."""
    kind = space["type"]
    if kind == "Dict":
        inner = {key: schema(x) for key, x in space["spaces"].items()}
        return {"type": "object", "properties": inner, "additionalProperties": False}
    if kind == "Tuple":
        inner = [schema(x) for x in space["spaces"]]
        return {"type": "array", "prefixItems": inner, "items": False}
    if kind == "Discrete":
        start = space["start"]
        return {"type": "integer", "minimum": start, "maximum": start + space["n"] - 1}
    whole = kind != "Box" or "int" in space["dtype"]
    found: Json = {"type": "integer" if whole else "number"}
    shape = space["shape"] if kind == "Box" else _shape(space)
    for size in reversed(shape):
        found = {"type": "array", "items": found, "minItems": size, "maxItems": size}
    return found


def _shape(space: Json) -> list[int]:
    if space["type"] == "MultiBinary":
        return space["n"] if isinstance(space["n"], list) else [space["n"]]
    found, level = [], space["nvec"]
    while isinstance(level, list):
        found.append(len(level))
        level = level[0]
    return found


def _paths(description: Description) -> Json:
    action = schema(description.action_space)
    answer = {
        "action": action,
        "action_name": {"type": "string"},
        "propensity": {"type": "number"},
        "log_density": {"type": "number"},
        "request_id": {"type": "string"},
        "model_version": {"type": "string"},
        "state": {"type": "array"},
    }
    known = {"action", "request_id", "model_version"}
    known |= {x.name for x in description.outputs}
    known |= {"action_name"} if description.actions is not None else set()
    known |= {"state"} if description.is_recurrent else set()
    answer = {k: x for k, x in answer.items() if k in known}
    knows = {"action", "action_name", "model_version", "state"} & answer.keys()
    prediction = {k: answer[k] for k in answer if k in knows}
    for name in ("probabilities", "values"):
        if name in known:
            prediction[name] = {"type": "array", "items": {"type": "number"}}
    if "value" in known:
        prediction["value"] = {"type": "number"}
    asked = _asked(description)
    feedback = {
        "request_id": {"type": "string"},
        "reward": {"type": "number"},
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
        "metrics": {"type": "object", "additionalProperties": {"type": "number"}},
        "final_observation": asked["observation"],
        "final_possible_actions": {"type": "array"},
    }
    logged = {"request_id": {"type": "string"}, "logged": {"type": "boolean"}}
    export = {"export": {"type": "string"}}
    return {
        "/v1/act": {"post": _operation("Draw an action and log it", asked, answer)},
        "/v1/predict": {
            "post": _operation("Return the greedy action and values", asked, prediction)
        },
        "/v1/feedback": {
            "post": _operation(
                "Log what followed a decision",
                feedback,
                logged,
                required=["request_id", "reward"],
            )
        },
        "/v1/model": {
            "get": _operation("Describe the export that answers"),
            "post": _operation("Let another export take over", export),
        },
        "/v1/rollback": {"post": _operation("Let the previous export take over")},
        "/healthz": {"get": _operation("Say that the process lives")},
        "/readyz": {"get": _operation("Say that requests are taken")},
        "/metrics": {"get": _operation("Return measures as Prometheus text")},
    }


def _asked(description: Description) -> Json:
    if description.is_by_id:
        numbers = {str(x): {"type": "number"} for x in description.features}
        observation: Json = {
            "type": "object",
            "properties": numbers,
            "additionalProperties": False,
        }
    else:
        observation = schema(description.observation_space)
    found = {
        "observation": observation,
        "observations": {"type": "array", "items": observation},
        "mdp_id": {"type": "string"},
        "sequence_number": {"type": "integer"},
    }
    if description.mask is not None and description.is_discrete:
        start = description.start
        numbers = [start + k for k in range(description.action_space["n"])]
        items = {"enum": [*description.action_names, *numbers]}
        found["possible_actions"] = {"type": "array", "items": items, "minItems": 1}
    if description.is_recurrent:
        found |= {"episode_start": {"type": "boolean"}, "state": {"type": "array"}}
    return found


def _operation(
    summary: str,
    asked: Json | None = None,
    answer: Json | None = None,
    required: list[str] | None = None,
) -> Json:
    found: Json = {"summary": summary}
    if asked is not None:
        body: Json = {
            "type": "object",
            "properties": asked,
            "additionalProperties": False,
        }
        if required:
            body["required"] = required
        found["requestBody"] = {"content": {"application/json": {"schema": body}}}
    good: Json = {"description": "done"}
    if answer is not None:
        inner = {"type": "object", "properties": answer}
        good["content"] = {"application/json": {"schema": inner}}
    responses = {"200": good}
    if asked is not None:
        responses |= {k: {"description": x} for k, x in _ERRORS.items()}
    return found | {"responses": responses}
