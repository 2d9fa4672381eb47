"""Bodies of requests: JSON objects, checked, as decisions and feedback."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import LARGEST_NUMBER
from tfagents_batch.serving import rows
from tfagents_batch.serving.inputs import finite, memory
from tfagents_batch.serving.observations import (
    DecisionRequest,
    Reader,
    not_finite,
    split,
    stack,
)
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.settings.suggest import hint

# Values of a decision, with their names in a request of several decisions.
_PER_DECISION = (
    "mdp_id",
    "sequence_number",
    "possible_actions",
    "episode_start",
    "state",
)
_KEYS = {"observation", "observations", *_PER_DECISION}
_KEYS_OF_A_LINE = {"observation", "possible_actions"}
_FEEDBACK = {
    "request_id",
    "reward",
    "terminated",
    "truncated",
    "metrics",
    "final_observation",
    "final_possible_actions",
}
BATCH = 256  # lines of a run of the model
_EXACT = 2**53  # from here on, floats have lost digits
_LARGEST = sys.float_info.max
_MOST_LISTS = 500_000  # also objects; an empty one takes 3 bytes, and 64 in memory
_LONGEST = 200  # characters of an id
TOO_DEEP = "lists or objects are nested too deeply; send flat ones"


def parse(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; UserError if it is none."""
    count = body.count(b"[") + body.count(b"{")
    if count > _MOST_LISTS:
        raise UserError(
            f"the body has {count:,} lists and objects; expected at most "
            f"{_MOST_LISTS:,}: send several requests"
        )
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:  # also for text that is not UTF-8
        nan = b"NaN" in body or b"Infinity" in body  # which json.dumps of Python writes
        advice = "; JSON has no NaN and no Infinity" if nan else ""
        raise UserError(f"the body is no JSON: {error}{advice}") from None
    if not isinstance(content, dict):
        raise UserError(
            f"the body is a {type(content).__name__}; expected a JSON object such as "
            '{"observation": [0.1, 0.2]}'
        )
    return content


def decisions(body: bytes, reader: Reader) -> tuple[list[DecisionRequest], bool]:
    """Return the decisions of a request, and whether it asked for several.

    The body is JSON with "observation" or "observations"; other values belong to the
    decision, or are lists with one for each. UserError says what is wrong and where.
    """
    try:
        return _decisions(parse(body), reader)
    except RecursionError:  # of what quotes or reads a value
        raise UserError(TOO_DEEP) from None


def feedback(body: bytes, reader: Reader) -> dict[str, Any]:
    """Return a line of feedback: what is known of a decision afterwards."""
    try:
        return _feedback(parse(body), reader)
    except RecursionError:
        raise UserError(TOO_DEEP) from None


def _decisions(
    body: dict[str, Any], reader: Reader
) -> tuple[list[DecisionRequest], bool]:
    if len(body) == 1 and "observation" in body and not reader.description.is_recurrent:
        return [reader.read(body["observation"])], False
    _check_keys(body, _KEYS)
    several = "observations" in body
    if several == ("observation" in body):
        raise UserError(
            "the body has "
            + ("both observation and observations" if several else "no observation")
            + '; expected {"observation": ...}, or {"observations": [...]} for several'
        )
    if not several:
        return [_decision(body, reader)], False
    observations = body["observations"]
    if not isinstance(observations, list) or not observations:
        raise UserError("observations is no list of at least one observation")
    lists = {name: body[name] for name in _PER_DECISION if body.get(name) is not None}
    for name, value in lists.items():
        if not isinstance(value, list) or len(value) != len(observations):
            raise UserError(
                f"{name} is no list of {len(observations)}; expected one for each of "
                "the observations"
            )
    requests = []
    for index, observation in enumerate(observations):
        one = {name: value[index] for name, value in lists.items()}
        try:
            requests.append(_decision(one | {"observation": observation}, reader))
        except UserError as error:
            raise UserError(f"observations[{index}]: {error}") from None
    return requests, True


def _feedback(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    _check_keys(body, _FEEDBACK)
    for name in ("request_id", "reward"):
        if name not in body:
            raise UserError(f"the body lacks {name}; every feedback needs it")
    line: dict[str, Any] = {
        "request_id": _text(body["request_id"], "request_id"),
        "reward": float(finite(body["reward"], "reward", _LARGEST)),
    }
    for name in ("terminated", "truncated"):
        if (value := _flag(body, name)) is not None:
            line[name] = value
    if line.get("terminated") and line.get("truncated"):
        raise UserError("both terminated and truncated are true; expected one of them")
    if (metrics := body.get("metrics")) is not None:
        if not isinstance(metrics, dict):
            raise UserError("metrics is no object of numbers by name")
        line["metrics"] = {
            name: float(finite(x, f"metrics.{name}", _LARGEST))
            for name, x in metrics.items()
        }
    if (final := body.get("final_observation")) is not None:
        observation = reader.read(final, body.get("final_possible_actions"))
        line |= rows.final(reader.description, observation)
    elif body.get("final_possible_actions") is not None:
        raise UserError("final_possible_actions needs a final_observation")
    return line


def _decision(body: dict[str, Any], reader: Reader) -> DecisionRequest:
    request = reader.read(body["observation"], body.get("possible_actions"))
    if reader.description.is_recurrent:
        asked = body.get("state"), _flag(body, "episode_start")
        request.arrays.update(memory(reader.description, *asked))
    elif body.get("state") is not None:
        raise UserError("state is given, but this policy has none; leave it out")
    mdp_id, number = body.get("mdp_id"), body.get("sequence_number")
    if mdp_id is not None:
        mdp_id = _text(mdp_id, "mdp_id")
    if number is not None:
        if type(number) is float and number.is_integer() and abs(number) < _EXACT:
            number = int(number)
        if type(number) is not int or abs(number) > LARGEST_NUMBER:
            raise UserError(
                f"sequence_number is {number!r:.80}; expected a whole number up to 2^62"
            )
        if mdp_id is None:
            raise UserError("sequence_number needs an mdp_id, the episode's name")
    return request._replace(mdp_id=mdp_id, sequence_number=number)


def _check_keys(body: dict[str, Any], known: set[str]) -> None:
    if not body.keys() <= known:
        name = min(body.keys() - known)
        raise UserError(
            f"the body has the unknown key {name!r:.50}; {hint(name, known)}"
        )


def _flag(body: dict[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{name} is {value!r:.80}; expected true or false")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise UserError(
            f"{name} is {value!r:.80}; expected text of at most {_LONGEST} characters"
        )
    return value


def predict(predictor: Predictor, lines: Iterable[bytes]) -> Iterator[str]:
    """Yield a line of JSON for each line: the greedy action, values, probabilities.

    Lines are ``{"observation": ...}`` as to ``/v1/predict`` of the server, with
    ``possible_actions`` if the policy has an action mask. UserError names the line that
    is wrong; also for a recurrent policy.
    """
    description = predictor.description
    if description.is_recurrent:
        raise UserError(
            f"{description.folder} is recurrent, and single lines have no memory; use "
            "Predictor in Python, which returns the state"
        )
    decisions = _of_lines(Reader(description), lines)
    for first in itertools.count(1, BATCH):
        some = list(itertools.islice(decisions, BATCH))
        if not some:
            return
        outputs = predictor.run_greedy(stack(description, some))
        for row, name in not_finite(outputs).items():
            raise UserError(
                f"line {first + row} leads to values of {name} that are not finite; "
                "use smaller numbers"
            )
        yield from (orjson.dumps(x).decode() for x in split(description, outputs))


def _of_lines(reader: Reader, lines: Iterable[bytes]) -> Iterator[DecisionRequest]:
    for number, line in enumerate(lines, 1):
        try:
            asked = parse(line)
            if not {"observation"} <= asked.keys() <= _KEYS_OF_A_LINE:
                raise UserError(
                    'expected an object with "observation", and "possible_actions" for '
                    "a policy with an action mask, but no other keys"
                )
            yield reader.read(asked["observation"], asked.get("possible_actions"))
        except UserError as error:
            raise UserError(f"line {number}: {error}") from error
        except RecursionError:
            raise UserError(f"line {number}: {TOO_DEEP}") from None
