"""What the functions answer in each scenario, in the form of
`lockstep asl run --mocks`: lists by function, used in order, the last one
repeated. Both engines get the same answers."""

import json

STATE = "STATE_BUCKET"  # in place of the deployed bucket's name


def gives(**output):
    return {"return": output}


def fails(name):
    # A function's failure has its body as the cause, on both engines.
    return {"error": name, "cause": json.dumps({"errorMessage": f"the cause of {name}", "errorType": name}, separators=(",", ":"))}


def decision(what, **more):
    nothing = {"token": 0, "expires": "", "waitSeconds": 0, "waitedSeconds": 0, "queuedSeconds": 0, "turns": 1, "lap": 1, "regained": False, "loss": None, "reason": ""}
    return gives(**nothing | {"decision": what} | more)


def found(batches):
    return gives(
        batches=batches,
        files=batches * 10,
        bytes=4096,
        left=0,
        cutoff="2026-01-31T09:00:01Z",
        manifest={"bucket": STATE, "key": f"manifests/{batches}.json", "etag": '"0cc175b9c0f1b6a831c399e269772661"'},
        maxConcurrency=1,  # so that the order of the calls is the order of the batches
        toleratedFailurePercentage=100,
    )


def processed(batch):
    return gives(batch=batch, done=10, failed=0)


HELD = decision("held", token=7, expires="2026-01-31T09:02:00Z")
WAIT = decision("wait", waitSeconds=1, reason="held by P0")
COMMITTED = gives(done=20, failed=0, quarantined=0, superseded=0, archived=0, deferred=0, unanswered=0, rows=99, rejected=0, summary="s3://b/summary.json")
RELEASED = gives(released=True, reason="")

LOSS = {"Error": "LeaseLostError", "Cause": "another run has the lock"}
OVERTAKEN = decision("overtaken", turns=4, lap=3, loss=LOSS, reason="the run lost its lock in each of its 3 laps")

# What a run meets that finds two batches and does them.
WORKING = {"acquire": [HELD], "discover": [found(2)], "process": [processed(0), processed(1)], "commit": [COMMITTED], "release": [RELEASED]}

# By name: the last state, and what differs from WORKING.
SCENARIOS = {
    "happy-path": ("RunSucceeded", {}),
    "nothing-new": ("RunSucceeded", {"discover": [found(0)]}),
    "waits-twice": ("RunSucceeded", {"acquire": [WAIT, WAIT, HELD]}),
    "superseded": ("RunSkipped", {"acquire": [decision("superseded", reason="enough runs wait")]}),
    "waited-too-long": ("LockWaitTimedOut", {"acquire": [WAIT, decision("timedOut", waitedSeconds=3600, reason="held by P0")]}),
    "unknown-decision": ("RunFailed", {"acquire": [decision("delegated")]}),
    "wrong-configuration": ("RunRefused", {"acquire": [fails("InvalidConfigError")]}),
    "acquire-fails": ("RunFailed", {"acquire": [fails("LockCorruptError")]}),
    "discover-recovers": ("RunSucceeded", {"discover": [fails("TransientError"), fails("TransientError"), found(2)]}),
    "discover-fails": ("RunFailed", {"discover": [fails("TransientError"), fails("LedgerDamagedError")]}),
    "loses-the-lock": ("RunSucceeded", {"acquire": [HELD, decision("held", token=9, turns=2, lap=2, loss=LOSS)], "discover": [fails("LeaseLostError"), found(2)]}),
    "is-fenced": ("RunSucceeded", {"discover": [found(2), found(0)], "commit": [fails("LedgerFencedError")]}),
    "loses-every-lap": ("RunFailed", {"acquire": [HELD, HELD, HELD, OVERTAKEN], "discover": [fails("LeaseLostError")]}),
    "a-child-fails": ("RunSucceeded", {"process": [processed(0), fails("Runtime.ExitError")]}),
    "every-child-fails": ("RunSucceeded", {"process": [fails("Runtime.ExitError")]}),
    "a-child-recovers": ("RunSucceeded", {"process": [fails("TransientError"), processed(0), processed(1)]}),
    "commit-fails": ("RunFailed", {"commit": [fails("TooManyFilesFailedError")]}),
    "release-recovers": ("RunSucceeded", {"release": [fails("StepError"), fails("string"), RELEASED]}),
    "release-fails-once": ("RunFailed", {"release": [fails("StepError")] * 6 + [RELEASED]}),
    "release-after-failure-fails": ("RunFailed", {"commit": [fails("StepError")], "release": [fails("StepError")]}),
    "manifest-is-gone": ("StepFunctionsFailed", {"discover": [found(3)]}),
}

MANIFESTS = {0: [], 2: [{"number": 0, "files": []}, {"number": 1, "files": []}]}


def world(name):
    return WORKING | SCENARIOS[name][1]


def final_state(name):
    return SCENARIOS[name][0]
