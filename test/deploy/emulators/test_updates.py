"""Deploying again, with other settings, and taking the stack away. These come
last: they end the deployments that the other tests use."""

import copy
import json

import pytest


@pytest.fixture
def on(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("on", ["moto", "ministack", "localstack"], indirect=True)
def test_deploying_again_changes_nothing(on):
    before = snapshot(on)
    assert "lockstep (no changes)" in on.cdk.deploy(on.settings)
    assert snapshot(on) == before


# LocalStack leaves schedules as they were.
@pytest.mark.parametrize("on", ["ministack"], indirect=True)
def test_a_changed_setting_changes_what_it_is_about(on):
    before = snapshot(on)
    settings = on.settings = copy.deepcopy(on.settings)
    settings["functions"]["acquire"] = {"memoryMB": 512}
    settings["logs"] = {"retentionDays": 7}
    settings["pipelines"]["weather"]["run"]["batch"]["maxConcurrency"] = 2
    on.cdk.deploy(settings)
    after = snapshot(on)

    assert after["resources"] == before["resources"], "something was replaced"
    assert after["definition"] == before["definition"]
    assert after["functions"]["lockstep-acquire"].pop("MemorySize") == 512
    before["functions"]["lockstep-acquire"].pop("MemorySize")
    assert after["functions"] == before["functions"]
    assert set(after["retention"].values()) == {7}
    schedule = on.client("scheduler").get_schedule(Name="lockstep-weather", GroupName="lockstep")
    assert json.loads(schedule["Target"]["Input"]) == on.run_configuration()
    assert on.outputs()["WeatherRun"] == schedule["Target"]["Input"]


# LocalStack deletes the objects of a bucket that is to be kept.
@pytest.mark.parametrize("on", ["moto", "ministack"], indirect=True)
def test_what_was_processed_outlives_the_stack(on):
    s3 = on.client("s3")
    buckets = [on.bucket(role) for role in ("Source", "Destination", "State")]
    for bucket in buckets:
        s3.put_object(Bucket=bucket, Key="kept", Body=b"data")
    on.cdk.destroy(on.settings)

    for bucket in buckets:
        assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"data"
    if on.emulator.has_bucket_policies:
        policy = json.loads(s3.get_bucket_policy(Bucket=buckets[2])["Policy"])
        assert "NoDeletionOfLockAndHead" in {statement.get("Sid") for statement in policy["Statement"]}
    assert not on.client("lambda").list_functions()["Functions"]
    assert not on.client("stepfunctions").list_state_machines()["stateMachines"]
    assert not on.client("events").list_rules()["Rules"]
    assert not on.client("scheduler").list_schedules()["Schedules"]
    assert not on.client("logs").describe_log_groups()["logGroups"]
    assert not on.client("sqs").list_queues().get("QueueUrls")
    assert not [r for r in on.client("iam").list_roles()["Roles"] if r["RoleName"].startswith("lockstep-")]


def snapshot(on):
    """What is deployed, as far as both emulators tell it."""
    functions = on.client("lambda").list_functions()["Functions"]
    machine = on.client("stepfunctions").describe_state_machine(stateMachineArn=on.arn("states", "stateMachine:lockstep-weather"))
    return {
        "resources": on.resources(),
        "definition": machine["definition"],
        "functions": {f["FunctionName"]: {key: f[key] for key in ("CodeSha256", "Environment", "MemorySize", "Role", "Timeout")} for f in functions},
        "retention": {g["logGroupName"]: g.get("retentionInDays") for g in on.client("logs").describe_log_groups()["logGroups"]},
    }
