"""Functions as Lambda runs them: their programs, as processes in the
environment that they were deployed with, behind Lambda's Runtime API
(https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html).
"""

import json
import logging
import os
import queue
import subprocess
import threading
import time
import uuid
from pathlib import Path

from werkzeug.serving import make_server

from cdk import REGION

ENVIRONMENT = {
    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    "AWS_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "TZ": "UTC",
}


class Runtime:
    """Lambda's Runtime API on a loopback port, and the processes that ask it
    for work, until close. Logs and temporary files go to folder."""

    def __init__(self, folder):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._processes = {}  # by their names in the API's paths
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._server.daemon_threads = True  # some wait for processes that will not ask again
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        with self._lock:
            processes = list(self._processes.values())
        for process in processes:
            process.stop()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def start(self, function, code, environment):
        """Starts code/bootstrap for the function of that name."""
        name = f"{function}-{uuid.uuid4()}"
        log = open(self._folder / f"{name}.log", "wb")
        own = {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}/{name}",
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder),
        }
        process = Process(log)
        with self._lock:
            self._processes[name] = process
        process.popen = subprocess.Popen(
            [code / "bootstrap"],
            cwd=code,
            env=ENVIRONMENT | environment | own,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        return process

    def logs(self):
        """What the processes wrote, for people who look into a failure."""
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(self._folder.glob("*.log")))

    def _answer(self, environ, start_response):
        _, name, _, _, *rest = environ["PATH_INFO"].split("/")
        process = self._processes[name]
        status, headers, body = "202 Accepted", {}, b'{"status":"OK"}'
        match rest:
            case ["invocation", "next"]:
                process.call = process.calls.get()
                status, headers, body = "200 OK", process.call.headers, process.call.payload
            case ["invocation", id, "response"]:
                process.call.end(id, False, read(environ))
            case ["invocation", id, "error"]:
                process.call.end(id, True, read(environ))
            case ["init", "error"]:
                process.log.write(read(environ))
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        start_response(status, list(headers.items()))
        return [body]


def read(environ):
    if environ.get("wsgi.input_terminated"):
        return environ["wsgi.input"].read()
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


class Process:
    """Takes one call after the other."""

    def __init__(self, log):
        self.log = log
        self.popen = None
        self.calls = queue.Queue()
        self.call = None  # the last one that it took

    def invoke(self, payload, arn, seconds):
        """Returns whether the function failed, and the body of Invoke's answer."""
        call = Call(payload, arn, seconds)
        self.calls.put(call)
        while not call.done.wait(0.05):
            if self.popen.poll() is not None:
                return True, _failure("Runtime.ExitError", f"exit status {self.popen.returncode}")
            if time.time() > call.deadline:
                self.stop()
                return True, _failure("Sandbox.Timedout", f"Task timed out after {seconds} seconds")
        return call.failed, call.answer

    def is_running(self):
        return self.popen.poll() is None

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self.log.close()


class Call:
    def __init__(self, payload, arn, seconds):
        self.payload = payload
        self.id = str(uuid.uuid4())
        self.deadline = time.time() + seconds
        self.headers = {
            "Lambda-Runtime-Aws-Request-Id": self.id,
            "Lambda-Runtime-Deadline-Ms": str(int(self.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
        }
        self.done = threading.Event()
        self.failed = self.answer = None

    def end(self, id, failed, answer):
        if id == self.id:
            self.failed, self.answer = failed, answer
            self.done.set()


def _failure(kind, message):
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()
