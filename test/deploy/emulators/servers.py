"""Emulators that are processes of their own, on loopback ports until close."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from cdk import ROOT
from direction import Direction


class Server:
    """health is the path of url that answers once it serves."""

    account = "000000000000"
    has_bucket_policies = True
    keeps_log_retention = True

    def __init__(self, folder, url, health, command, environment):
        self._folder, self.url = folder, url
        self._log = open(folder / "server.log", "wb")
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._wait_until_it_answers(health)
        except BaseException:
            self.close()
            raise

    def _wait_until_it_answers(self, health):
        for _ in range(600):
            assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{self.logs()}"
            try:
                urllib.request.urlopen(self.url + health, timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError(f"it does not answer:\n{self.logs()}")

    def logs(self):
        return Path(self._log.name).read_text()

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class MiniStack(Server):
    def __init__(self, folder):
        url, port = free_url()
        environment = {"GATEWAY_PORT": port, "BIND_HOST": "127.0.0.1", "LOG_LEVEL": "WARNING"}
        super().__init__(folder, url, "/_ministack/health", [sys.executable, "-m", "ministack.app"], environment)


class LocalStack(Server):
    """It has packages that the others do not get on with, and so a Python
    environment of its own."""

    keeps_log_retention = False

    def __init__(self, folder):
        self.direction = Direction(folder / "direction")
        url, _ = free_url()
        python, program = ROOT / ".venv" / "localstack" / "bin" / "python", Path(__file__).with_name("localstack_main.py")
        super().__init__(folder, url, "/_localstack/health", [python, program, "--listen", url, "--folder", folder], {})

    def logs(self):
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(self._folder.glob("*.log")))


def free_url():
    """A URL of this machine, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"http://localhost:{port}", str(port)
