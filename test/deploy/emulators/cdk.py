"""The CDK command line, in a folder that holds all it writes."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STACK = "lockstep"
REGION = "us-east-1"


class CDK:
    """Deploys to one emulator. built has dist/ and bin/, as make build fills
    them, and bin/infra, the app."""

    def __init__(self, built, emulator, folder, method="change-set"):
        self._folder, self._account, self._method = folder, emulator.account, method
        for name in ("cdk.json", "statemachine.asl.json"):
            shutil.copy(ROOT / name, folder / name)
        for name in ("bin", "dist"):
            (folder / name).symlink_to(built / name)
        home, temporary, elsewhere = built / "home", folder / "tmp", folder / "elsewhere"
        home.mkdir(exist_ok=True)  # what jsii unpacks there, it unpacks once
        temporary.mkdir()
        elsewhere.mkdir()
        self._elsewhere = elsewhere
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(temporary),
            # It would take the home from the user's record, and not from HOME.
            "CDK_HOME": str(home / ".cdk"),
            # It remembers accounts by key, from one emulator to the next.
            "AWS_ACCESS_KEY_ID": f"AKIA{uuid.uuid4().hex[:16].upper()}",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": emulator.url,
            # Else it would give CloudFormation the template's address on AWS.
            "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": emulator.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NODE_NO_WARNINGS": "1",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "true",
            "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "true",
        }

    def bootstrap(self):
        # In a folder without cdk.json it does not ask the app, which takes seconds.
        return self._run("bootstrap", f"aws://{self._account}/{REGION}", cwd=self._elsewhere)

    def deploy(self, settings):
        return self._app("deploy", settings, "--require-approval", "never", "--method", self._method)

    def destroy(self, settings):
        return self._app("destroy", settings, "--force")

    def template(self):
        """The template of the last call."""
        return json.loads((self._folder / "cdk.out" / f"{STACK}.template.json").read_text())

    def _app(self, verb, settings, *arguments):
        file = self._folder / "settings.json"
        file.write_text(json.dumps(settings))
        return self._run(verb, STACK, "--app", "bin/infra", "-c", f"lockstep=@{file}", *arguments, cwd=self._folder)

    def _run(self, *arguments, cwd):
        """Returns what it said, with standard error, where it tells of progress."""
        ran = subprocess.run(
            ["node", ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk", "--no-color", "--ci", *arguments],
            cwd=cwd,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert ran.returncode == 0, f"cdk {' '.join(arguments)} ended with {ran.returncode}:\n{ran.stdout}"
        return ran.stdout
