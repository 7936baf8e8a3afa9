"""What the tests tell an emulator's functions to do instead of their work, in
files, since an emulator may be another process: answers by script, or to wait.
"""

import contextlib
import json
import threading
import time
from pathlib import Path


class Direction:
    """Of all executions, in a folder that both sides know."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._folder.mkdir(exist_ok=True)
        self._lock = threading.Lock()
        self._scripts = {}

    def script(self, execution, answers):
        """Has the execution's functions answer in the form of `lockstep asl run
        --mocks`: lists by function, used in order, the last one repeated."""
        self._script(execution).write_text(json.dumps(answers))

    @contextlib.contextmanager
    def hold(self, execution, function):
        """Keeps the execution's calls of the function from beginning."""
        held = self._held(execution, function)
        held.touch()
        try:
            yield
        finally:
            held.unlink()

    def answer(self, function, payload):
        """Waits while the call is held. Returns whether the function failed, and
        the body of Invoke's answer; nothing where there is no script."""
        execution = json.loads(payload).get("execution", {}).get("Name", "")
        while self._held(execution, function).exists():
            time.sleep(0.05)
        with self._lock:
            if execution not in self._scripts and self._script(execution).exists():
                self._scripts[execution] = Script(json.loads(self._script(execution).read_text()))
            script = self._scripts.get(execution)
            return script.answer(function) if script else None

    def _script(self, execution):
        return self._folder / f"{execution}.script"

    def _held(self, execution, function):
        return self._folder / f"{execution}.{function}.held"


class Script:
    def __init__(self, answers):
        self._answers = answers
        self._calls = {}

    def answer(self, function):
        n = self._calls.get(function, 0)
        self._calls[function] = n + 1
        answers = self._answers[function]
        answer = answers[min(n, len(answers) - 1)]
        if "error" in answer:
            return True, answer["cause"].encode()
        return False, json.dumps(answer["return"]).encode()
