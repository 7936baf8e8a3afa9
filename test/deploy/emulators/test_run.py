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
    assert done["committed"]["unanswered"] == 0 and done["released"]["released"], "the second had to wait for the lease to end"
    assert files["acquired"]["token"] == done["acquired"]["token"] + 1
    assert set(runs.outputs()) == {f"parquet/{sample}.parquet" for sample in SAMPLES}

    # Nobody has the lock now, and there is nothing to do.
    third = runs.start("third")
    assert runs.end(third)["discovered"]["batches"] == 0
    assert runs.visited(third) == ["AcquireLock", "LockDecision", "DiscoverFiles", "AnythingNew", "ReleaseLock", "RunSucceeded"]


def test_a_wrong_configuration_is_refused_by_its_field(runs):
    wrong = runs.start("wrong", lock={"ttlSeconds": 59})
    ended = runs.wait_for_end(wrong)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidConfigError")
    assert "lock.ttlSeconds" in ended["cause"]
    assert runs.visited(wrong) == ["AcquireLock", "RunRefused"]


def test_a_stopped_run_never_holds_the_lock_again(localstack, built):
    """No Catch sees that it ended: EventBridge tells the release function. The
    lease is left to end by itself, since a call of the run may still be at work;
    who knows that none is need not wait."""
    runs = Runs(localstack)
    runs.upload("seattle-weather/2012-03.csv")
    with localstack.emulator.direction.hold("stopped", "lockstep-discover"):
        stopped = runs.start("stopped")
        runs.wait_for(stopped, "DiscoverFiles")
        [holder] = runs.lock(built)["holders"]
        assert holder["owner"] == stopped
        runs.stop(stopped)
        runs.until(lambda: stopped in [mark["owner"] for mark in runs.lock(built)["ended"]], "the run to be stopped at its lock")
        lock = runs.lock(built)
        assert lock["state"] == "held" and lock["holders"][0]["stopped"], "the lock is free while a call may be at work"
        runs.break_lock(built, stopped)
    assert runs.lock(built)["state"] == "free"
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
        return self._lockstep(built, "lock", "status")

    def break_lock(self, built, holder):
        return self._lockstep(built, "lock", "break", "--holder", holder, "--by", "a test", "--reason", "its run was stopped")

    def _lockstep(self, built, *command):
        """What the command line prints about the stack."""
        environment = {
            "AWS_ENDPOINT_URL": self.on.emulator.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "LOCKSTEP_S3_PATH_STYLE": "true",
        }
        command = [built / "bin" / "lockstep", *command, "--stack", STACK, "--output", "json"]
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
