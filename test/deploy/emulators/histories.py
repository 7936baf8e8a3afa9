"""The histories of one execution on both engines, in a form in which they can
be compared."""

import json
import re
import subprocess
import time

from cdk import ROOT


class Execution:
    """How an execution ended, and all its events."""

    def __init__(self, status, error, cause, output, events):
        self.end = {"status": status, "error": error, "cause": cause, "output": decoded(output)}
        self.events = [comparable(event) for event in events]

    def visited(self):
        return [e["details"]["name"] for e in self.events if e["type"].endswith("StateEntered")]

    def final_state(self):
        return self.visited()[-1]

    def lines(self):
        """One for each event, and one for the end: what is compared."""
        lines = [
            f"{e['id']}<-{e['previous']} {e['type']} {json.dumps(e['details'], sort_keys=True)}" for e in self.events
        ]
        return lines + [f"{key} {json.dumps(value, sort_keys=True)}" for key, value in sorted(self.end.items())]


def on_emulator(client, machine, names, input):
    """Starts an execution for each name, all at once, and waits for them."""
    arns = {name: client.start_execution(stateMachineArn=machine, name=name, input=input)["executionArn"] for name in names}
    ended = {}
    deadline = time.monotonic() + 300
    while len(ended) < len(arns):
        assert time.monotonic() < deadline, f"still running: {sorted(arns.keys() - ended.keys())}"
        for name in arns.keys() - ended.keys():
            e = client.describe_execution(executionArn=arns[name])
            if e["status"] != "RUNNING":
                events = client.get_execution_history(executionArn=arns[name], maxResults=1000)["events"]
                ended[name] = Execution(e["status"], e.get("error"), e.get("cause"), e.get("output"), events)
        time.sleep(0.2)
    return ended


def on_ours(built, folder, machine, name, input, mocks):
    """Runs the deployed definition in Lockstep's own interpreter."""
    files = {"definition": folder / "definition.json", "input": folder / "input.json", "mocks": folder / "mocks.json"}
    files["definition"].write_text(machine["definition"])
    files["input"].write_text(input)
    files["mocks"].write_text(json.dumps(mocks))
    command = [built / "bin" / "lockstep", "asl", "run", "--output", "json", "--scale-waits", "0", "--name", name, "--machine", machine["name"]]
    for option, file in files.items():
        command += [f"--{option}", file]
    ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert ran.returncode in (0, 1), f"{name}: {ran.stderr}"
    e = json.loads(ran.stdout)
    return Execution(e["status"], e.get("error"), e.get("cause"), e.get("output"), e["events"])


def comparable(event):
    details = next((v for key, v in event.items() if key.endswith("EventDetails")), {})
    details = {key: decoded(v) if key in ("input", "output", "parameters") else v for key, v in details.items()}
    previous = event.get("previousEventId", 0)
    if event["type"] == "MapStateExited":
        previous = "?"  # AWS itself has changed its mind about it
    return {"id": event["id"], "previous": previous, "type": event["type"], "details": masked(details)}


def decoded(text):
    return None if text is None else masked(json.loads(text))


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ACCOUNT = re.compile(r"(?<=:)\d{12}(?=:)")


def masked(value, key=None):
    """Leaves out what differs from run to run, what Lambda's SDK adds, and the
    count of redrives, which is AWS's and ours alone."""
    if isinstance(value, dict):
        return {k: masked(v, k) for k, v in value.items() if k not in ("SdkHttpMetadata", "SdkResponseMetadata", "roleArn", "RoleArn", "RedriveCount")}
    if isinstance(value, list):
        return [masked(v) for v in value]
    if key == "StartTime":
        return "(a time)"
    return ACCOUNT.sub("(account)", UUID.sub("(a UUID)", value)) if isinstance(value, str) else value
