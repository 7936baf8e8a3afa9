import contextlib
import json
import platform
import signal
import subprocess

import boto3
import pytest
from botocore.config import Config

from cdk import CDK, REGION, ROOT, STACK
from moto_server import Moto
from servers import LocalStack, MiniStack

# Functions are built for this machine, so that they can be run on it.
ARCHITECTURE = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]


def pytest_configure():
    # Fixtures end their servers and processes then, too.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    make = ["make", "-C", ROOT, "--no-print-directory", "build", f"ARCH={ARCHITECTURE}", f"OUT={folder}"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    app = ["go", "-C", ROOT / "infra", "build", "-mod=mod", "-buildvcs=false", "-o", folder / "bin" / "infra", "."]
    subprocess.run(app, check=True)
    return folder


@pytest.fixture(scope="session")
def moto(built, tmp_path_factory):
    with contextlib.closing(Moto(tmp_path_factory.mktemp("functions"))) as emulator:
        # It knows no definition in S3, and a stack made by a change set has no outputs.
        cdk = CDK(built, emulator, tmp_path_factory.mktemp("moto"), method="direct")
        yield Deployed(emulator, cdk, inlineDefinition=True, **WITHOUT_ALARMS, **told(emulator))


@pytest.fixture(scope="session")
def ministack(built, tmp_path_factory):
    with contextlib.closing(MiniStack(tmp_path_factory.mktemp("server"))) as emulator:
        yield Deployed(emulator, CDK(built, emulator, tmp_path_factory.mktemp("ministack")), **WITHOUT_ALARMS, **told(emulator))


@pytest.fixture(scope="session")
def localstack(built, tmp_path_factory):
    with contextlib.closing(LocalStack(tmp_path_factory.mktemp("server"))) as emulator:
        # It tells functions itself where AWS is, as Lambda does.
        functions = {"environment": {"LOCKSTEP_S3_PATH_STYLE": "true"}}
        yield Deployed(emulator, CDK(built, emulator, tmp_path_factory.mktemp("localstack")), functions=functions)


# They know no alarms over several metrics.
WITHOUT_ALARMS = {"alarms": {"enabled": False}}


def told(emulator):
    """The functions' settings where the emulator does not say where AWS is."""
    return {"functions": {"environment": {"AWS_ENDPOINT_URL": emulator.url, "LOCKSTEP_S3_PATH_STYLE": "true"}}}


class Deployed:
    """The stack of cdk.json on an emulator, with the switches that it needs there."""

    def __init__(self, emulator, cdk, **switches):
        self.emulator, self.cdk, self.account = emulator, cdk, emulator.account
        self.settings = json.loads((ROOT / "cdk.json").read_text())["context"]["lockstep"] | switches
        self.environment = self.settings["functions"]["environment"]
        cdk.bootstrap()
        cdk.deploy(self.settings)

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=self.emulator.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
        )

    def resources(self):
        """Physical ids by logical id. Those of resources that an emulator passed
        over, without one or with LocalStack's word for none, are missing."""
        listed = self.client("cloudformation").list_stack_resources(StackName=STACK)["StackResourceSummaries"]
        return {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in listed if r["PhysicalResourceId"] not in ("", "unknown")}

    def bucket(self, role):
        return self.resources()[f"{role}Bucket"]

    def run_configuration(self):
        """The input of a scheduled run, as the settings say."""
        run = self.settings["pipelines"]["weather"]["run"] | {"pipeline": "weather", "trigger": "schedule"}
        for role in ("source", "destination", "state"):
            run[role] = run[role] | {"bucket": self.bucket(role.title())}
        return run

    def outputs(self):
        stack = self.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def arn(self, service, resource):
        return f"arn:aws:{service}:{REGION}:{self.account}:{resource}"
