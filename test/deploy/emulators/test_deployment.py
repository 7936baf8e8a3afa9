"""What the CDK command line makes of the stack, on three emulators, since
none knows everything; docs/emulators.md tells what each leaves out."""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile

import pytest

from cdk import REGION, ROOT
from conftest import ARCHITECTURE

FUNCTIONS = ("acquire", "discover", "process", "commit", "release")
MEMORY = {"acquire": 256, "discover": 1769, "process": 3008, "commit": 1769, "release": 256}
STORAGE = {"acquire": 512, "discover": 4096, "process": 10240, "commit": 4096, "release": 512}


def shipped_machine():
    return json.loads((ROOT / "statemachine.asl.json").read_text())


class Deployment:
    """What holds on all."""

    passed_over = set()  # types of resources that the emulator does not make

    @pytest.fixture
    def on(self):
        raise NotImplementedError

    def test_every_resource_is_made(self, on):
        made = on.resources()
        missing = {resource["Type"] for id, resource in on.cdk.template()["Resources"].items() if id not in made}
        assert missing == self.passed_over

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_functions(self, on, name):
        function = on.client("lambda").get_function(FunctionName=f"lockstep-{name}")["Configuration"]
        assert function["Runtime"] == "provided.al2023"
        assert function["Handler"] == "bootstrap"
        assert function["Architectures"] == [ARCHITECTURE]
        assert function["MemorySize"] == MEMORY[name]
        # It ends before the state machine gives up on it.
        assert function["Timeout"] == task_seconds(shipped_machine()["States"], name) - 10
        assert function["Environment"]["Variables"] == on.environment | {"LOCKSTEP_S3_EXPECTED_OWNER": on.account}

        role = on.client("iam").get_role(RoleName=function["Role"].rpartition("/")[2])["Role"]
        assert role["Arn"] == function["Role"]
        assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "lambda.amazonaws.com"}

    def test_the_code_is_what_was_built(self, on, built):
        for name in FUNCTIONS:
            code = self.code(on, name)
            configuration = on.client("lambda").get_function_configuration(FunctionName=f"lockstep-{name}")
            assert base64.b64encode(hashlib.sha256(code).digest()).decode() == configuration["CodeSha256"]
            with zipfile.ZipFile(io.BytesIO(code)) as archive:
                assert archive.namelist() == ["bootstrap"]
                assert archive.getinfo("bootstrap").external_attr >> 16 & 0o111, "it cannot be executed"
                assert archive.read("bootstrap") == (built / "dist" / name / "bootstrap").read_bytes()

    def test_the_state_machine_is_ours_with_the_deployed_names(self, on):
        machine = on.client("stepfunctions").describe_state_machine(stateMachineArn=on.arn("states", "stateMachine:lockstep-weather"))
        assert "${" not in machine["definition"]
        values = {f"${{{name.title()}FunctionArn}}": on.arn("lambda", f"function:lockstep-{name}") for name in FUNCTIONS}
        values["${StateBucket}"] = on.bucket("State")
        values["${RunsPrefix}"] = "weather/runs/"
        assert json.loads(machine["definition"]) == substitute(shipped_machine(), values)
        assert machine["type"] == "STANDARD"
        role = on.client("iam").get_role(RoleName=machine["roleArn"].rpartition("/")[2])["Role"]
        assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "states.amazonaws.com"}

    def test_roles_name_the_deployed_buckets(self, on):
        made = on.resources()
        role = next(made[id] for id in made if id.startswith("AcquireRole") and "Policy" not in id)
        iam = on.client("iam")
        [name] = iam.list_role_policies(RoleName=role)["PolicyNames"]
        statements = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]["Statement"]
        lock = next(s for s in statements if s.get("Sid") == "Lock")
        assert lock["Resource"] == f"arn:aws:s3:::{on.bucket('State')}/weather/lock.json"
        assert lock["Action"] == ["s3:GetObject", "s3:PutObject"]

    def test_the_aws_command_line_finds_them(self, on):
        functions = aws(on, "lambda", "list-functions", "--query", "Functions[].FunctionName")
        assert set(functions) == {f"lockstep-{name}" for name in FUNCTIONS}
        machines = aws(on, "stepfunctions", "list-state-machines", "--query", "stateMachines[].stateMachineArn")
        assert machines == [on.arn("states", "stateMachine:lockstep-weather")]
        assert aws(on, "cloudformation", "describe-stacks", "--query", "Stacks[?StackName=='lockstep'].StackStatus") == ["CREATE_COMPLETE"]

    def test_buckets_are_encrypted(self, on):
        for role in ("Source", "Destination", "State"):
            rules = on.client("s3").get_bucket_encryption(Bucket=on.bucket(role))["ServerSideEncryptionConfiguration"]["Rules"]
            assert [rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] for rule in rules] == ["AES256"]

    def test_ends_that_no_catch_sees_are_told_to_release(self, on):
        events = on.client("events")
        rule = events.describe_rule(Name="lockstep-status-change")
        assert rule["State"] == "ENABLED"
        assert json.loads(rule["EventPattern"]) == {
            "source": ["aws.states"],
            "detail-type": ["Step Functions Execution Status Change"],
            "detail": {
                "status": ["ABORTED", "TIMED_OUT", "FAILED"],
                "stateMachineArn": [on.arn("states", "stateMachine:lockstep-weather")],
            },
        }
        [target] = events.list_targets_by_rule(Rule="lockstep-status-change")["Targets"]
        assert target["Arn"] == on.arn("lambda", "function:lockstep-release")
        queues = on.client("sqs")
        queue = queues.get_queue_attributes(QueueUrl=on.resources()["ReleaseDeadLetters"], AttributeNames=["QueueArn", "MessageRetentionPeriod"])
        assert target["DeadLetterConfig"]["Arn"] == queue["Attributes"]["QueueArn"]
        assert queue["Attributes"]["MessageRetentionPeriod"] == str(14 * 86400)
        policy = json.loads(on.client("lambda").get_policy(FunctionName="lockstep-release")["Policy"])
        assert [s["Principal"] for s in policy["Statement"]] == [{"Service": "events.amazonaws.com"}]

    def test_logs_are_kept_for_thirty_days(self, on):
        groups = {g["logGroupName"]: g.get("retentionInDays") for g in on.client("logs").describe_log_groups()["logGroups"]}
        ours = {f"/aws/lambda/lockstep-{name}" for name in FUNCTIONS} | {"/aws/vendedlogs/states/lockstep-weather"}
        assert groups == dict.fromkeys(ours, 30 if on.emulator.keeps_log_retention else None)

    def test_the_dashboard_shows_the_state_machine(self, on):
        body = on.client("cloudwatch").get_dashboard(DashboardName="lockstep")["DashboardBody"]
        assert on.arn("states", "stateMachine:lockstep-weather") in json.dumps(json.loads(body))

    def test_the_outputs_say_how_to_start_a_run(self, on):
        outputs = on.outputs()
        assert outputs["WeatherStateMachineArn"] == on.arn("states", "stateMachine:lockstep-weather")
        assert json.loads(outputs["WeatherRun"]) == on.run_configuration()
        assert outputs.keys() == on.cdk.template()["Outputs"].keys()


class TestOnMoto(Deployment):
    passed_over = {
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::Permission",  # it is made, but has no name there
        "AWS::S3::BucketPolicy",
        "AWS::SQS::QueuePolicy",
        "AWS::Scheduler::Schedule",
        "AWS::Scheduler::ScheduleGroup",
    }

    @pytest.fixture
    def on(self, moto):
        return moto

    def code(self, on, name):
        return on.emulator.code(f"lockstep-{name}")

    def test_release_keeps_some_concurrency(self, on):
        reserved = on.client("lambda").get_function_concurrency(FunctionName="lockstep-release")
        assert reserved["ReservedConcurrentExecutions"] == 5


class Complete(Deployment):
    """What moto leaves out."""

    def code(self, on, name):
        function = on.client("lambda").get_function(FunctionName=f"lockstep-{name}")
        # LocalStack names hosts that not every resolver knows.
        location = urllib.parse.urlsplit(function["Code"]["Location"])
        with urllib.request.urlopen(f"{on.emulator.url}{location.path}?{location.query}", timeout=60) as answer:
            return answer.read()

    def test_the_schedule_starts_runs_with_the_configuration(self, on):
        schedule = on.client("scheduler").get_schedule(Name="lockstep-weather", GroupName="lockstep")
        assert schedule["ScheduleExpression"] == "rate(15 minutes)"
        assert schedule["State"] == "ENABLED"
        assert schedule["Target"]["Arn"] == on.arn("states", "stateMachine:lockstep-weather")
        assert schedule["Target"]["Input"] == on.outputs()["WeatherRun"]

    def test_only_the_state_bucket_guards_lock_and_head(self, on):
        for role, sids in (
            ("Source", set()),
            ("Destination", set()),
            ("State", {"OnlyConditionalWritesOfLockAndHead", "NoDeletionOfLockAndHead"}),
        ):
            bucket = on.bucket(role)
            statements = json.loads(on.client("s3").get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
            assert all(s["Effect"] == "Deny" for s in statements)
            assert {s["Sid"] for s in statements if "Sid" in s} == sids
            assert any(s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} for s in statements)
            guarded = {r for s in statements if "Sid" in s for r in s["Resource"]}
            assert guarded == {f"arn:aws:s3:::{bucket}/weather/{key}" for key in ("lock.json", "ledger/*/head.json") if sids}

    def test_buckets_are_private_and_keep_versions(self, on):
        s3 = on.client("s3")
        for role in ("Source", "Destination", "State"):
            assert s3.get_bucket_versioning(Bucket=on.bucket(role))["Status"] == "Enabled"
            blocked = s3.get_public_access_block(Bucket=on.bucket(role))["PublicAccessBlockConfiguration"]
            assert len(blocked) == 4 and all(blocked.values())
            [rule] = s3.get_bucket_ownership_controls(Bucket=on.bucket(role))["OwnershipControls"]["Rules"]
            assert rule["ObjectOwnership"] == "BucketOwnerEnforced"


class TestOnMiniStack(Complete):
    @pytest.fixture
    def on(self, ministack):
        return ministack

    def test_functions_have_room_for_files(self, on):
        for name in FUNCTIONS:
            function = on.client("lambda").get_function_configuration(FunctionName=f"lockstep-{name}")
            assert function["EphemeralStorage"]["Size"] == STORAGE[name]


class TestOnLocalStack(Complete):
    passed_over = {"AWS::CloudWatch::Dashboard"}
    test_the_dashboard_shows_the_state_machine = None

    @pytest.fixture
    def on(self, localstack):
        return localstack

    def test_alarms_are_there(self, on):
        made = on.client("cloudwatch").describe_alarms()["MetricAlarms"]
        in_template = [r for r in on.cdk.template()["Resources"].values() if r["Type"] == "AWS::CloudWatch::Alarm"]
        assert len(made) == len(in_template) > 5


def aws(on, *arguments):
    """What the AWS command line prints."""
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": on.emulator.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    command = [sys.executable, "-m", "awscli", *arguments, "--output", "json"]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout)


def task_seconds(states, function):
    """How long the state machine waits for a function at least."""
    seconds = []
    for state in states.values():
        if state.get("Parameters", {}).get("FunctionName") == f"${{{function.title()}FunctionArn}}":
            seconds.append(state["TimeoutSeconds"])
        if "ItemProcessor" in state:
            seconds.append(task_seconds(state["ItemProcessor"]["States"], function))
    return min(seconds, default=10**9)


def substitute(value, values):
    if isinstance(value, dict):
        return {key: substitute(v, values) for key, v in value.items()}
    if isinstance(value, list):
        return [substitute(v, values) for v in value]
    if isinstance(value, str):
        for name, with_ in values.items():
            value = value.replace(name, with_)
    return value
