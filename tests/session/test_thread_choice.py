"""All threads while they pay, one while others take the cores, with ever rarer attempts."""

from __future__ import annotations

import numpy as np
import pytest

import ortpkg
from ortpkg.runtime.session import thread_choice
from ortpkg.runtime.session.thread_choice import FIRST_REST_S, MOST_REST_S, ThreadChoice
from tests.fake_blas import install_fake_blas
from tests.session.conftest import session_of


class Machine:
    """A clock, and runs that take as long as the machine makes them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.all_s, self.alone_s = 0.06, 0.1
        self.choice = ThreadChoice(lambda: self.now)

    def run(self, signature: object = None) -> bool:
        """Whether the run had one thread."""
        kind, is_alone, began = self.choice.begin(signature)
        self.now += self.alone_s if is_alone else self.all_s
        self.choice.end(kind, is_alone, began)
        return is_alone


def test_on_a_quiet_machine_the_second_run_alone_has_one_thread() -> None:
    machine = Machine()
    assert [machine.run() for _ in range(50)] == [False, True] + [False] * 48


def test_on_a_busy_machine_runs_keep_to_one_thread_and_try_all_ever_more_seldom() -> None:
    machine = Machine()
    machine.all_s = 0.3
    attempts: list[float] = []
    while machine.now < 60:
        before = machine.now
        if not machine.run():
            attempts.append(before)
    gaps = np.diff(attempts[1:])
    assert gaps[0] == pytest.approx(FIRST_REST_S, abs=0.5)
    assert (np.diff(gaps)[:4] > 0).all()
    assert gaps[-1] == pytest.approx(MOST_REST_S, abs=0.5)


def test_once_the_machine_is_quiet_again_runs_have_all_threads() -> None:
    machine = Machine()
    machine.all_s = 0.3
    while machine.now < 5:
        machine.run()
    machine.all_s = 0.06
    machine.now += MOST_REST_S
    assert not any(machine.run() for _ in range(20))
    machine.all_s = 0.3  # and a new disappointment counts from the beginning
    machine.run()
    started = machine.now
    while machine.run():
        pass
    assert machine.now - started < 2 * FIRST_REST_S + machine.all_s


def test_short_runs_are_left_alone() -> None:
    machine = Machine()
    machine.all_s = thread_choice.LEAST_S / 2
    assert not any(machine.run() for _ in range(10))


def test_runs_of_different_shapes_are_told_apart_and_too_many_forgotten() -> None:
    machine = Machine()
    assert [machine.run("a"), machine.run("b"), machine.run("a"), machine.run("b")] == [
        False,
        False,
        True,
        True,
    ]
    for number in range(200):
        machine.run(number)
    assert machine.run("a") is False


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, {1, 8}),
        ({"intra_op_num_threads": 2}, {2, 8}),
        ({"use_deterministic_compute": True}, {8}),
    ],
)
def test_a_session_chooses_where_the_caller_leaves_it_the_choice(
    options: dict[str, object], counts: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = install_fake_blas(monkeypatch)
    monkeypatch.setattr(thread_choice, "LEAST_S", 0.0)
    with session_of("g (float[N, 4] x) => (float[N, 4] y) { y = Neg(x) }", **options) as session:
        for _ in range(4):
            session.run(None, {"x": np.zeros((2, 4), np.float32)})
    assert set(library.counts) == counts
    assert isinstance(session, ortpkg.InferenceSession)
