"""MiniStack as an AWS that the CDK command line can deploy to, in a process of
its own."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


class MiniStack:
    """Serves on a loopback port until close."""

    account = "000000000000"
    has_bucket_policies = True

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://localhost:{port}"
        self._log = open(folder / "ministack.log", "wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ministack.app"],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(port),
                "LOG_LEVEL": "WARNING",
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def _wait_until_it_answers(self):
        for _ in range(600):
            assert self._process.poll() is None, f"MiniStack ended with {self._process.returncode}; see {self._log.name}"
            try:
                urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError(f"MiniStack does not answer; see {self._log.name}")

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
