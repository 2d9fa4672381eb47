"""Users whose notifications a server decides about, as a service would ask it."""

from __future__ import annotations

import http.client
import json
import time

import numpy as np

from examples.notifications import dynamics, simulator

MOST = 64  # decisions of a request


class Server:
    """Connection to a server of ``tfagents-batch serve``, for ``simulator.play``.

    Args:
      address: host and port of a server that may still be starting.
    """

    def __init__(self, address: str):
        self._connection = http.client.HTTPConnection(address, timeout=30)
        self._wait(time.monotonic() + 30)
        self._requests: list[str] = []  # ids of the newest decisions

    def decide(self, names, step, features):
        """Ask for decisions about users."""
        answers = []
        for start in range(0, len(names), MOST):
            part = slice(start, start + MOST)
            known = [simulator.by_id(user) for user in features[part]]
            asked = {"observations": known, "mdp_id": names[part]}
            asked["sequence_number"] = [step] * len(known)
            answers += self._post("/v1/act", asked)["decisions"]
        self._requests = [answer["request_id"] for answer in answers]
        send = np.array([x["action_name"] == dynamics.ACTIONS[1] for x in answers])
        return send, np.array([x["propensity"] for x in answers])

    def report(self, decided: simulator.Decided) -> None:
        """Give feedback on the newest decisions."""
        metrics = decided.metrics()
        for i, (request, parts) in enumerate(zip(self._requests, metrics, strict=True)):
            feedback = {"request_id": request, "metrics": parts}
            feedback["reward"] = float(decided.after.reward[i])
            if decided.after.left[i]:
                feedback["terminated"] = True
            self._post("/v1/feedback", feedback)

    def _wait(self, deadline: float) -> None:
        """Wait until the server takes requests."""
        while True:
            try:
                self._connection.request("GET", "/readyz")
                self._connection.getresponse().read()
                return
            except OSError:
                self._connection.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _post(self, path: str, body: dict) -> dict:
        self._connection.request("POST", path, json.dumps(body))
        response = self._connection.getresponse()
        answer = json.loads(response.read() or "{}")
        if response.status >= 300:
            raise RuntimeError(f"{path} answered {response.status}: {answer}")
        return answer
