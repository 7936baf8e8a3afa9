"""The deployed state machine in interpreters that share no code with Lockstep's
own: LocalStack's, and moto's, which was LocalStack's once. In each scenario the
functions give the same answers to both, and the histories must be the same,
event for event: numbers, inputs, outputs, what the functions are called with,
how it ends.
"""

import difflib
import json
import re

import pytest

import scenarios
from cdk import ROOT
from histories import on_emulator, on_ours

# What both are known to do otherwise: lines that may differ, by scenario.
EXPECTED = {
    # AWS fails a reader that finds no object with States.ItemReaderFailed, which
    # a Catch catches. They call it States.Runtime, and let a Catch catch that.
    "manifest-is-gone": re.compile(r"MapRunFailed|States\.(ItemReaderFailed|Runtime)"),
}


@pytest.fixture(scope="session", params=["moto", "localstack"])
def played(request, built, tmp_path_factory):
    """Both engines' executions of all scenarios, by name."""
    on = request.getfixturevalue(request.param)
    state = on.bucket("State")
    for number, manifest in scenarios.MANIFESTS.items():
        on.client("s3").put_object(Bucket=state, Key=f"manifests/{number}.json", Body=json.dumps(manifest))
    machine = on.client("stepfunctions").describe_state_machine(stateMachineArn=on.arn("states", "stateMachine:lockstep-weather"))
    input = (ROOT / "events" / "schedule.json").read_text()

    answers = {}
    for name in scenarios.SCENARIOS:
        world = json.loads(json.dumps(scenarios.world(name)).replace(scenarios.STATE, state))
        answers[name] = {f"lockstep-{function}": list for function, list in world.items()}
        on.emulator.direction.script(name, answers[name])
    theirs = on_emulator(on.client("stepfunctions"), machine["stateMachineArn"], answers, input)
    objects = {f"{state}/manifests/{number}.json": manifest for number, manifest in scenarios.MANIFESTS.items()}
    folder = tmp_path_factory.mktemp("ours")
    ours = {name: on_ours(built, folder, machine, name, input, answers[name] | {"s3": objects}) for name in answers}
    return {name: (ours[name], theirs[name]) for name in answers}


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_both_engines_tell_the_same_story(played, name):
    ours, theirs = played[name]
    assert ours.final_state() == scenarios.final_state(name)
    assert theirs.visited() == ours.visited()
    assert theirs.end["status"] == ours.end["status"]

    differing = [line for line in difflib.ndiff(ours.lines(), theirs.lines()) if line[0] in "+-"]
    surprising = [line for line in differing if name not in EXPECTED or not EXPECTED[name].search(line[2:])]
    assert not surprising, "- ours, + theirs:\n" + "\n".join(surprising)
    # A difference that is gone is to be taken off the list.
    assert bool(differing) == (name in EXPECTED)


def test_the_story_is_told_to_its_end(played):
    """The comparison is worth something only if much happens."""
    ours, _ = played["happy-path"]
    assert ours.end["output"]["committed"]["done"] == 20
    assert ours.end["output"]["processed"]["ResultWriterDetails"]["Key"].endswith("/manifest.json")
    assert {state for ours, _ in played.values() for state in ours.visited()} == set(json.loads((ROOT / "statemachine.asl.json").read_text())["States"])
