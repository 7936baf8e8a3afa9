"""The deployed functions, run as Lambda would: the program that moto got as
the function's code, in the environment that it was deployed with, behind
Lambda's Runtime API (https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html).
"""

import io
import json
import os
import queue
import subprocess
import threading
import time
import uuid
import zipfile

from moto.awslambda.models import lambda_backends

from cdk import REGION


class Functions:
    """Starts a process for each invocation that finds none idle, until close."""

    def __init__(self, account, folder, runtime_api):
        self._functions = lambda_backends[account][REGION]
        self._folder = folder
        self._runtime_api = runtime_api
        self._lock = threading.Lock()
        self._processes = {}  # by their names to the Runtime API
        self._idle = {}  # by function

    def close(self):
        with self._lock:
            processes = list(self._processes.values())
        for process in processes:
            process.popen.terminate()
        for process in processes:
            try:
                process.popen.wait(5)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()
            process.log.close()

    def invoke(self, name, payload):
        """Returns whether the function failed, and the body of Invoke's answer."""
        function = self._functions.get_function(name)
        with self._lock:
            idle = self._idle.setdefault(name, [])
            process = idle.pop() if idle else None
        process = process or self._start(function)
        call = Call(payload, function)
        process.calls.put(call)
        while not call.done.wait(0.05):
            if process.popen.poll() is not None:
                return True, _failure("Runtime.ExitError", f"exit status {process.popen.returncode}")
            if time.time() > call.deadline:
                process.popen.kill()
                return True, _failure("Sandbox.Timedout", f"Task timed out after {function.timeout} seconds")
        with self._lock:
            self._idle[name].append(process)
        return call.failed, call.answer

    def code(self, name):
        return self._functions.get_function(name).code_bytes

    def runtime(self, path, body):
        """Answers a process's request to the Runtime API."""
        name, _, path = path.partition("/")
        process = self._processes[name]
        match path.split("/")[2:]:
            case ["invocation", "next"]:
                process.call = process.calls.get()
                return "200 OK", process.call.headers, process.call.payload
            case ["invocation", id, "response"]:
                process.call.end(id, False, body)
            case ["invocation", id, "error"]:
                process.call.end(id, True, body)
            case ["init", "error"]:
                process.log.write(body)
        return "202 Accepted", {}, b'{"status":"OK"}'

    def _start(self, function):
        name = f"{function.function_name}-{uuid.uuid4()}"
        code = self._folder / function.code_sha_256.replace("/", "_")
        with self._lock:
            if not code.exists():
                _unpack(function.code_bytes, code)
        process = Process(open(self._folder / f"{name}.log", "wb"))
        with self._lock:
            self._processes[name] = process
        process.popen = subprocess.Popen(
            [code / "bootstrap"],
            cwd=code,
            env={
                "AWS_LAMBDA_RUNTIME_API": self._runtime_api + name,
                "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
                "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
                "AWS_REGION": REGION,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
                "HOME": str(self._folder),
                "TMPDIR": str(self._folder),
                "TZ": "UTC",
                **function.environment_vars,
            },
            stdin=subprocess.DEVNULL,
            stdout=process.log,
            stderr=process.log,
        )
        return process

    def logs(self):
        """What the processes wrote, for people who look into a failure."""
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(self._folder.glob("*.log")))


class Process:
    def __init__(self, log):
        self.log = log
        self.popen = None
        self.calls = queue.Queue()
        self.call = None  # the last one that it took


class Call:
    def __init__(self, payload, function):
        self.payload = payload
        self.id = str(uuid.uuid4())
        self.deadline = time.time() + function.timeout
        self.headers = {
            "Lambda-Runtime-Aws-Request-Id": self.id,
            "Lambda-Runtime-Deadline-Ms": str(int(self.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": function.function_arn,
        }
        self.done = threading.Event()
        self.failed = self.answer = None

    def end(self, id, failed, answer):
        if id == self.id:
            self.failed, self.answer = failed, answer
            self.done.set()


def _unpack(code, folder):
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        archive.extractall(folder)
    (folder / "bootstrap").chmod(0o755)  # which extractall forgets


def _failure(kind, message):
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()
