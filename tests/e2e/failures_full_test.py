"""The whole matrix of failures: every layout, phase and kind. Part of the campaigns; failures_test.py runs a choice of it."""

from failure_cells import KINDS, LAYOUTS, PHASES, cells, run_cells


def campaign(kind):
    def test(tmp):
        run_cells(tmp, cells(LAYOUTS, PHASES, [kind]))

    return test


for one_kind in KINDS:
    globals()[f"test_every_phase_of_every_layout_ends_as_it_should_after_{one_kind}"] = campaign(one_kind)
