"""moto as an AWS that the CDK command line can deploy to, in this process.

What stands in front of it answers Lambda's Invoke, which moto itself would
run in a container: by a script where the payload's execution has one, else by
the deployed function's own program, as a process. All else is moto's:
CloudFormation, S3, and the interpreter of state machines.
"""

import io
import logging
import os
import threading
import urllib.parse
import uuid
import zipfile

from moto.awslambda.models import lambda_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

import repairs  # noqa: F401
from cdk import REGION
from direction import Direction
from functions import Runtime, read

INVOKE = "/2015-03-31/functions/"


class Moto:
    """Serves on a loopback port until close."""

    account = "123456789012"  # of every key that moto does not know
    has_bucket_policies = False
    keeps_log_retention = True

    def __init__(self, folder):
        logging.getLogger("moto").setLevel(logging.CRITICAL)  # to it, each failing task is an error
        self.direction = Direction(folder / "direction")
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._server.daemon_threads = True
        port = self._server.server_port
        self.url = f"http://localhost:{port}"
        self._functions = Functions(self.account, folder)
        os.environ["MOTO_PORT"] = str(port)  # where the interpreter finds S3 and Lambda
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self._functions.runtime.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        del os.environ["MOTO_PORT"]

    def code(self, function):
        """The ZIP archive that the function was deployed with."""
        return self._functions.get(function).code_bytes

    def logs(self):
        return self._functions.runtime.logs()

    def _answer(self, environ, start_response):
        path = environ["PATH_INFO"]
        if not (path.startswith(INVOKE) and path.endswith("/invocations")):
            return self._moto(environ, start_response)
        name = urllib.parse.unquote(path[len(INVOKE) :].removesuffix("/invocations")).rpartition(":")[2]
        payload = read(environ)
        failed, body = self.direction.answer(name, payload) or self._functions.invoke(name, payload)
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "x-amzn-RequestId": str(uuid.uuid4()),
            "X-Amz-Executed-Version": "$LATEST",
        }
        if failed:
            headers["X-Amz-Function-Error"] = "Unhandled"
        start_response("200 OK", list(headers.items()))
        return [body]


class Functions:
    """The functions that moto was given. An invocation that finds no idle
    process starts one."""

    def __init__(self, account, folder):
        self.runtime = Runtime(folder)
        self._backend = lambda_backends[account][REGION]
        self._folder = folder
        self._lock = threading.Lock()
        self._idle = {}  # by function

    def get(self, name):
        return self._backend.get_function(name)

    def invoke(self, name, payload):
        function = self.get(name)
        with self._lock:
            idle = self._idle.setdefault(name, [])
            process = idle.pop() if idle else None
        process = process or self._start(function)
        result = process.invoke(payload, function.function_arn, function.timeout)
        if process.is_running():
            with self._lock:
                self._idle[name].append(process)
        return result

    def _start(self, function):
        code = self._folder / function.code_sha_256.replace("/", "_")
        with self._lock:
            if not code.exists():
                _unpack(function.code_bytes, code)
        environment = function.environment_vars | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size)}
        return self.runtime.start(function.function_name, code, environment)


def _unpack(code, folder):
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        archive.extractall(folder)
    (folder / "bootstrap").chmod(0o755)  # which extractall forgets
