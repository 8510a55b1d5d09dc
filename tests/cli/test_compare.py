"""``ortpkg select --compare``, and the policies of releases on the command line."""

from __future__ import annotations

from tests.cli.conftest import DIGITS, RunCommand


def test_compare_shows_what_releases_would_select_beside_ours(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--compare", "--ep", "cpu")
    assert done.code == 0
    heading, ours, older, newer, newest = (line.split() for line in done.out.splitlines())
    assert heading[:3] == ["component", "policy", "asked"]
    assert ours[1:3] == ["default", "cpu-fp32"]
    assert older[1:5] == ["onnxruntime-1.27", "cpu", "none", "differs"]
    assert newer[1:4] == ["onnxruntime-1.31", "cpu", "cpu-fp32"]
    assert newest[1:4] == ["onnxruntime-1.32", "cpu", "cpu-fp32"]


def test_compare_as_json_has_each_selection_whole(ortpkg: RunCommand) -> None:
    (comparison,) = ortpkg("select", DIGITS, "--compare", "--json").json["comparisons"]
    choices = comparison["choices"]
    assert comparison["component"] == "classifier"
    assert [choice["policy"] for choice in choices][:2] == ["default", "onnxruntime-1.27"]
    assert all(choice["selection"]["policy"] == choice["policy"] for choice in choices)
    assert choices[0]["agrees"] is True


def test_compare_ends_like_our_own_choice(ortpkg: RunCommand) -> None:
    assert ortpkg("select", DIGITS, "--compare", "--device", "npu").code == 3


def test_a_release_is_a_policy(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--policy", "onnxruntime-1.31", "--compat", "onnxruntime-1.31")
    assert (done.code, done.out.splitlines()[0].split()[:2]) == (0, ["classifier:", "cpu-fp32"])


def test_1_27_selects_nothing_for_the_cpu_alone_and_says_so(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--policy", "onnxruntime-1.27", "--ep", "cpu")
    assert done.code == 3
    assert (
        "NO_EP_GIVEN: onnxruntime 1.27 is given no EP but the CPU's, and selects nothing then"
        in done.err
    )


def test_an_unknown_release_is_a_usage_error_with_the_nearest(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--policy", "onnxruntime-1.13")
    assert done.code == 2
    assert "did you mean 'onnxruntime-1.32'" in done.err
