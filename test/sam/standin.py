"""Loads an image into an empty Docker, in place of the one that SAM would pull.

    standin.py NAME:TAG BUSYBOX

It has what SAM's own build on top of it and Lambda's layout need, and no
library at all: a shell, mv and chmod, /var/task and /tmp.
"""

import io
import sys
import tarfile
import time

import docker

READY_SECONDS = 30


def connect():
    """Docker, once it answers."""
    give_up = time.monotonic() + READY_SECONDS
    while True:
        try:
            client = docker.from_env()
            client.ping()
            return client
        except Exception as e:  # whatever it is: it is not there yet
            if time.monotonic() > give_up:
                sys.exit(f"Docker: no answer within {READY_SECONDS} s: {e}")
            time.sleep(0.1)


def image(busybox):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for folder, mode in {"bin": 0o755, "tmp": 0o1777, "opt": 0o755, "var/task": 0o755, "var/runtime": 0o755}.items():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        tar.add(busybox, "bin/busybox")
        for command in ["sh", "mv", "chmod"]:
            entry = tarfile.TarInfo(f"bin/{command}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return text.getvalue()


name, busybox = sys.argv[1:]
repository, tag = name.rsplit(":", 1)
connect().api.import_image_from_data(image(busybox), repository=repository, tag=tag)
