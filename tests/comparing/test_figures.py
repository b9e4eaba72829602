"""The figures of experiments are measured and make sense; how fast a machine is, is not asserted."""

from agentlab.bench.comparing import experiment_figures


def test_figures_of_experiments():
    found = experiment_figures(quick=True)
    assert found["simulated_fault_sessions_per_minute"] > 0 and 1 < found["simulated_faults_per_session"] < 5
    assert found["whatif_seconds_per_10000"] > 0 and found["whatif_slowest"]
    # A run that is over leaves its name and seed behind, and nothing else.
    assert 0 <= found["experiment_bytes_per_run"] < 1000
    assert 0 < found["experiment_overhead"] < 1
