"""Runs of the deployed functions themselves, over real files in an emulator's S3,
driven by the deployed state machine in the emulator's interpreter."""

import json
import os
import subprocess
import time

import pytest

from cdk import REGION, ROOT, STACK

SAMPLES = ("seattle-weather/2012-01.csv", "seattle-weather/2012-02.csv", "birdstrikes/1990-q1.csv")


@pytest.fixture(params=["moto", "localstack"])
def runs(request):
    return Runs(request.getfixturevalue(request.param))


def test_two_runs_take_turns(runs):
    for sample in SAMPLES[:2]:
        runs.upload(sample)
    with runs.on.emulator.direction.hold("first", "lockstep-process"):
        first = runs.start("first")
        runs.wait_for(first, "ProcessFiles")
        runs.upload(SAMPLES[2])  # too late for the first
        second = runs.start("second")
        runs.wait_for(second, "WaitForLock")
        assert runs.visited(second) == ["AcquireLock", "LockDecision", "WaitForLock"]

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


def test_a_stopped_run_gives_the_lock_back(localstack, built):
    """No Catch sees that it ended: EventBridge tells the release function."""
    runs = Runs(localstack)
    runs.upload("seattle-weather/2012-03.csv")
    with localstack.emulator.direction.hold("stopped", "lockstep-discover"):
        stopped = runs.start("stopped")
        runs.wait_for(stopped, "DiscoverFiles")
        assert runs.lock(built)["state"] == "held"
        runs.stop(stopped)
    runs.until(lambda: runs.lock(built)["state"] == "free", "the lock to be free")
    assert runs.end(runs.start("after-stopped"))["committed"]["done"] == 1


def test_the_commands_of_the_makefile(localstack, tmp_path):
    def make(target):
        command = ["make", "-C", ROOT, target, f"LOCALSTACK={localstack.emulator.url}", f"LOCALSTACK_OUT={tmp_path}"]
        environment = os.environ | {"CDK_HOME": str(tmp_path)}
        ran = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    assert "lockstep (no changes)" in make("localstack-deploy"), "it deploys something else than the tests"
    assert "SUCCEEDED" in make("localstack-run")


class Runs:
    def __init__(self, on):
        self.on = on
        self._s3, self._steps = on.client("s3"), on.client("stepfunctions")

    def upload(self, sample):
        self._s3.upload_file(str(ROOT / "samples" / sample), self.on.bucket("Source"), f"incoming/{sample}")

    def outputs(self):
        return [o["Key"] for o in self._s3.list_objects_v2(Bucket=self.on.bucket("Destination"))["Contents"]]

    def start(self, name, **changes):
        """Starts a run with the schedule's input, but a second between two turns."""
        input = self.on.run_configuration()
        input["lock"] = input["lock"] | {"pollSeconds": 1}
        machine = self.on.arn("states", "stateMachine:lockstep-weather")
        return self._steps.start_execution(stateMachineArn=machine, name=name, input=json.dumps(input | changes))["executionArn"]

    def visited(self, run):
        events = self._steps.get_execution_history(executionArn=run, maxResults=1000)["events"]
        return [e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e]

    def wait_for(self, run, state):
        self.until(lambda: state in self.visited(run), f"{run} to enter {state}")

    def wait_for_end(self, run):
        self.until(lambda: self._steps.describe_execution(executionArn=run)["status"] != "RUNNING", f"{run} to end")
        return self._steps.describe_execution(executionArn=run)

    def stop(self, run):
        self._steps.stop_execution(executionArn=run)

    def lock(self, built):
        """What `lockstep lock status` prints."""
        environment = {
            "AWS_ENDPOINT_URL": self.on.emulator.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "LOCKSTEP_S3_PATH_STYLE": "true",
        }
        command = [built / "bin" / "lockstep", "lock", "status", "--stack", STACK, "--output", "json"]
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout)

    def end(self, run):
        ended = self.wait_for_end(run)
        assert ended["status"] == "SUCCEEDED", f"{ended}\n{self.on.emulator.logs()}"
        return json.loads(ended["output"])

    def until(self, happened, what):
        deadline = time.monotonic() + 120
        while not happened():
            assert time.monotonic() < deadline, f"waited for {what}\n{self.on.emulator.logs()}"
            time.sleep(0.1)
