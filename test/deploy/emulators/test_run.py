"""Runs of the deployed functions themselves, over real files in moto's S3,
driven by the deployed state machine in moto's interpreter."""

import json
import threading
import time

import pytest

from cdk import ROOT

SAMPLES = ("seattle-weather/2012-01.csv", "seattle-weather/2012-02.csv", "birdstrikes/1990-q1.csv")


@pytest.fixture
def runs(moto):
    return Runs(moto)


def test_two_runs_take_turns(runs):
    for sample in SAMPLES[:2]:
        runs.upload(sample)
    process = threading.Event()
    runs.moto.emulator.gates["first", "lockstep-process"] = process
    try:
        first = runs.start("first")
        runs.wait_for(first, "ProcessFiles")
        runs.upload(SAMPLES[2])  # too late for the first
        second = runs.start("second")
        runs.wait_for(second, "WaitForLock")
        assert runs.visited(second) == ["AcquireLock", "LockDecision", "WaitForLock"]
    finally:
        process.set()

    done, files = runs.end(first), runs.end(second)
    assert done["committed"]["done"] == 2 and files["committed"]["done"] == 1
    assert done["committed"]["failed"] == files["committed"]["failed"] == 0
    assert files["acquired"]["token"] == done["acquired"]["token"] + 1
    assert {key.split(".")[0] for key in runs.outputs()} == {f"parquet/{sample.split('.')[0]}" for sample in SAMPLES}

    # Nobody has the lock now, and there is nothing to do.
    third = runs.start("third")
    assert runs.end(third)["discovered"]["batches"] == 0
    assert runs.visited(third) == ["AcquireLock", "LockDecision", "DiscoverFiles", "AnythingNew", "ReleaseLock", "RunSucceeded"]


def test_a_wrong_configuration_is_refused_by_its_field(runs):
    wrong = runs.start("wrong", lock={"ttlSeconds": 1})
    ended = runs.wait_for_end(wrong)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidConfigError")
    assert "lock.ttlSeconds" in ended["cause"]
    assert runs.visited(wrong) == ["AcquireLock", "RunRefused"]


class Runs:
    def __init__(self, moto):
        self.moto = moto
        self._s3, self._steps = moto.client("s3"), moto.client("stepfunctions")

    def upload(self, sample):
        self._s3.upload_file(str(ROOT / "samples" / sample), self.moto.bucket("Source"), f"incoming/{sample}")

    def outputs(self):
        return [o["Key"] for o in self._s3.list_objects_v2(Bucket=self.moto.bucket("Destination"))["Contents"]]

    def start(self, name, **changes):
        """Starts a run with the schedule's input, but a second between two turns."""
        input = self.moto.run_configuration()
        input["lock"] = input["lock"] | {"pollSeconds": 1}
        machine = self.moto.arn("states", "stateMachine:lockstep-weather")
        return self._steps.start_execution(stateMachineArn=machine, name=name, input=json.dumps(input | changes))["executionArn"]

    def visited(self, run):
        events = self._steps.get_execution_history(executionArn=run, maxResults=1000)["events"]
        return [e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e]

    def wait_for(self, run, state):
        self._until(lambda: state in self.visited(run), f"{run} to enter {state}")

    def wait_for_end(self, run):
        self._until(lambda: self._steps.describe_execution(executionArn=run)["status"] != "RUNNING", f"{run} to end")
        return self._steps.describe_execution(executionArn=run)

    def end(self, run):
        ended = self.wait_for_end(run)
        assert ended["status"] == "SUCCEEDED", f"{ended}\n{self.moto.emulator.functions.logs()}"
        return json.loads(ended["output"])

    def _until(self, happened, what):
        deadline = time.monotonic() + 120
        while not happened():
            assert time.monotonic() < deadline, f"waited for {what}\n{self.moto.emulator.functions.logs()}"
            time.sleep(0.1)
