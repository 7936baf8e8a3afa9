"""LocalStack without Docker: functions run as processes of this machine, each
execution environment the program that was deployed. All else is LocalStack's.
It is the last of the open versions, which need no token, for Python 3.11.
"""

import argparse
import os
import tempfile
import threading
import urllib.parse
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("--listen", default="http://localhost:4566", help="its URL; the host must be this machine")
arguments.add_argument("--folder", help="where all that it writes goes, and stays")
options = arguments.parse_args()
temporary = None if options.folder else tempfile.TemporaryDirectory(prefix="localstack-", ignore_cleanup_errors=True)
FOLDER = Path(options.folder or temporary.name)
tempfile.tempdir = str(FOLDER)

os.environ |= {
    "GATEWAY_LISTEN": f"127.0.0.1:{urllib.parse.urlsplit(options.listen).port or 80}",
    "DISABLE_EVENTS": "1",  # it would report its use
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DNS_ADDRESS": "0",
    "HOME": str(FOLDER),
}

if not isinstance(threading.Lock, type):
    # LocalStack's annotations say `Lock | None`, for which it must be a type, as
    # it is from Python 3.13 on.
    _lock = threading.Lock
    threading.Lock = type("Lock", (), {"__new__": lambda cls: _lock()})

from localstack.runtime import main
from localstack.runtime.server import twisted
from localstack.services.lambda_.invocation import execution_environment, runtime_executor, version_manager
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.s3 import provider as s3

from direction import Direction
from functions import Runtime

RUNTIME = Runtime(FOLDER)
DIRECTION = Direction(FOLDER / "direction")
s3.DEFAULT_S3_TMP_DIR = str(FOLDER / "s3")


class ProcessExecutor(runtime_executor.RuntimeExecutor):
    """An execution environment of a function, in place of a container."""

    def __init__(self, id, function_version):
        super().__init__(id, function_version)
        self._process = None
        self._environment = {}

    def start(self, env_vars):
        self._environment = {name: str(value) for name, value in env_vars.items()}

    def stop(self):
        if self._process:
            self._process.stop()

    def invoke(self, payload):
        function, id = self.function_version, payload["invoke-id"]
        body = payload["payload"].encode()
        failed, answer = DIRECTION.answer(function.id.function_name, body) or self._invoke(function, body)
        return InvocationResult(id, answer, failed, logs="")

    def _invoke(self, function, body):
        if not self._process or not self._process.is_running():
            code = function.config.code.get_unzipped_code_location()
            self._process = RUNTIME.start(function.id.function_name, code, self._environment)
        return self._process.invoke(body, function.qualified_arn, function.config.timeout)

    def get_address(self):
        return "127.0.0.1"

    def get_endpoint_from_executor(self):
        return "127.0.0.1"

    def get_runtime_endpoint(self):
        return ""  # of a program in the container, which there is not

    def get_logs(self):
        return ""

    @classmethod
    def prepare_version(cls, function_version):
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        pass


for _module in (runtime_executor, execution_environment, version_manager):
    _module.get_runtime_executor = lambda: ProcessExecutor


class Loopback:
    """Twisted's endpoints, of which LocalStack would listen on all addresses."""

    def __init__(self, endpoints):
        self._endpoints = endpoints

    def __getattr__(self, name):
        return getattr(self._endpoints, name)

    def TCP4ServerEndpoint(self, reactor, port):
        return self._endpoints.TCP4ServerEndpoint(reactor, port, interface="127.0.0.1")


twisted.endpoints = Loopback(twisted.endpoints)

try:
    main.main()
finally:
    RUNTIME.close()
    if temporary:
        temporary.cleanup()
