"""``%agent explore``: crash points tried from a cell, the verdict to be seen."""

from __future__ import annotations

from pathlib import Path

CELL = '''
import agentlab as al

sent = []

@al.tool(effect="external")
def send(text: str) -> dict:
    """Send a text, whoever asks and how often."""
    from agentlab.explorer.outbox import deliver
    return deliver(text)

def policy(view):
    if view.status.get("step"):
        return [al.say("sending"), al.call("send", text="hello")]
    return al.say("done")

def check(key: str) -> dict:
    return {"outcome": "not_done", "evidence": "nobody looked"}

mine = al.Task(
    name="mine", goal="Send hello once.", model=policy,
    tools=[al.tool(send, effect="external", verify=check)], steps=[al.step("send", tool="send")],
)
'''


def test_a_task_of_a_cell_is_explored_and_its_mistake_found(shell):
    shell.run(CELL)
    found = shell.run("%agent explore mine")
    assert not found.report.clean
    (violation,) = found.report.violations
    assert violation.invariant == "effects" and "happened 2 times" in violation.message
    for shown in (found.text(), found.html()):
        assert "--crash harness@effect.reply" in shown and "1 schedule breaks a promise" in shown
    assert Path(violation.file).exists()
    again = shell.run(f"%agent explore mine --replay {violation.file}")
    assert "effects" in again.text() and "happened 2 times" in again.text()


def test_what_is_sound_and_the_drills_in_one_line_each(shell):
    sound = shell.run("%agent explore agentlab.examples.sound_delivery")
    assert sound.report.clean and "every promise kept" in sound.text() and "crash points hit" in sound.html()
    assert sound.report.run["pairs, harness"] == 0, "singly, unless pairs are asked for"
    zombie = shell.run("%agent explore agentlab.examples.sound_delivery --zombie")
    assert "a zombie's late effect was refused" in zombie.text()
    dial = shell.run("%agent explore agentlab.examples.sound_delivery --dial")
    assert "power lost" in dial.text() and dial.html().count("<tr") == 7
    assert "every promise was kept" in shell.run("%agent explore agentlab.examples.sound_delivery --replayed").text()


def test_real_processes_end_as_the_simulation_says(shell):
    real = shell.run("%agent explore sales_report --real --count 3 --seed 5")
    assert real.report.schedules == 3 and real.report.kills >= 3 and real.report.clean and real.report.counted
    assert "each ended as the simulation says" in real.text()


def test_names_that_do_not_exist_get_near_matches(shell):
    assert "did you mean sales_report" in shell.complaint("%agent explore sales_reprt")
    assert "no module named" in shell.complaint("%agent explore agentlab.examples.sofa")
