"""Checks the JSON of `lockstep demo -o json` for what the demo promises.

    lockstep demo -o json | check.py
"""

import datetime
import json
import sys

time = datetime.datetime.fromisoformat  # texts do not sort: "…56.2Z" comes after "…56.21Z"


def entered(report, run):
    """When a run entered which state."""
    return [(time(e["timestamp"]), e["stateEnteredEventDetails"]["name"]) for e in report["history"][run["name"]] if "stateEnteredEventDetails" in e]


def main():
    report = json.load(sys.stdin)
    runs, holders, files = report["runs"], report["holders"], report["files"]

    assert [r["status"] for r in runs] == ["SUCCEEDED"] * 3, runs
    first, second, third = runs
    assert [r["token"] for r in runs] == sorted({r["token"] for r in runs}), "fencing tokens do not grow"
    # P1 gives the lock back before it ends, so P2 may have it a moment before P1's end.
    releasing = [at for at, state in entered(report, first) if state == "ReleaseLock"]
    waiting = [at for at, state in entered(report, second) if state == "WaitForLock"]
    assert waiting and len(releasing) == 1 and waiting[0] <= releasing[0] <= time(second["started"]), "the second run did not wait for the first"
    assert third["files"] == 0, "the third run found something"

    assert [h["token"] for h in holders] == [r["token"] for r in runs], holders
    for before, after in zip(holders, holders[1:]):
        assert time(before["until"]) <= time(after["from"]), f"two held the lock: {before}, {after}"

    versions = [(f["key"], f["version"]) for f in files]
    assert len(versions) == len(set(versions)), "a file was done twice"
    assert all(f["outcome"] == "done" and f["outputKey"] for f in files), "a file was not done"
    for run in runs:
        mine = [f for f in files if f["run"] == run["name"]]
        assert (len(mine), sum(f["rows"] for f in mine)) == (run["files"], run["rows"]), run
        events = report["history"][run["name"]]
        assert [e["id"] for e in events] == list(range(1, len(events) + 1)), run["name"]
        assert (events[0]["type"], events[-1]["type"]) == ("ExecutionStarted", "ExecutionSucceeded"), run["name"]
    print(f"ok: {len(files)} files, {sum(r['rows'] for r in runs)} rows, each once; {len(holders)} holders, one at a time")


if __name__ == "__main__":
    main()
