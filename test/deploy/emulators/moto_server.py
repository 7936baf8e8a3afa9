"""moto as an AWS that the CDK command line can deploy to, in this process.

What stands in front of it answers Lambda's Invoke, which moto itself would
run in a container: by a script where the payload's execution has one, else by
the deployed function's own program, as a process (see functions.py). All else
is moto's: CloudFormation, S3, and the interpreter of state machines, which is
LocalStack's.
"""

import json
import logging
import os
import threading
import urllib.parse
import uuid

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

import repairs  # noqa: F401
from functions import Functions

INVOKE = "/2015-03-31/functions/"
RUNTIME = "/_runtime/"


class Moto:
    """Serves on a loopback port until close."""

    account = "123456789012"  # of every key that moto does not know
    has_bucket_policies = False

    def __init__(self, folder):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        logging.getLogger("moto").setLevel(logging.CRITICAL)  # to it, each failing task is an error
        self.scripts = {}  # by the execution's name
        self.gates = {}  # events that calls wait for, by execution and function
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._server.daemon_threads = True  # some wait for functions that will not ask again
        port = self._server.server_port
        self.url = f"http://localhost:{port}"
        self.functions = Functions(self.account, folder, f"127.0.0.1:{port}{RUNTIME}")
        os.environ["MOTO_PORT"] = str(port)  # where the interpreter finds S3 and Lambda
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self.functions.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        del os.environ["MOTO_PORT"]

    def _answer(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith(INVOKE) and path.endswith("/invocations"):
            name = urllib.parse.unquote(path[len(INVOKE) :].removesuffix("/invocations"))
            status, headers, body = self._invoke(name.rpartition(":")[2], _read(environ))
        elif path.startswith(RUNTIME):
            status, headers, body = self.functions.runtime(path[len(RUNTIME) :], _read(environ))
        else:
            return self._moto(environ, start_response)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        start_response(status, list(headers.items()))
        return [body]

    def _invoke(self, function, payload):
        execution = json.loads(payload)["execution"]["name"]
        if (execution, function) in self.gates:
            self.gates[execution, function].wait(60)
        if execution in self.scripts:
            failed, body = self.scripts[execution].answer(function)
        else:
            failed, body = self.functions.invoke(function, payload)
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), "X-Amz-Executed-Version": "$LATEST"}
        if failed:
            headers["X-Amz-Function-Error"] = "Unhandled"
        return "200 OK", headers, body


def _read(environ):
    if environ.get("wsgi.input_terminated"):
        return environ["wsgi.input"].read()
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


class Script:
    """Answers in the form of `lockstep asl run --mocks`: lists by function,
    used in order, the last one repeated."""

    def __init__(self, answers):
        self._answers = answers
        self._calls = {}
        self._lock = threading.Lock()

    def answer(self, function):
        """Returns whether the function failed, and the body of Invoke's answer."""
        with self._lock:
            n = self._calls.get(function, 0)
            self._calls[function] = n + 1
        answers = self._answers[function]
        answer = answers[min(n, len(answers) - 1)]
        if "error" in answer:
            return True, answer["cause"].encode()
        return False, json.dumps(answer["return"]).encode()
