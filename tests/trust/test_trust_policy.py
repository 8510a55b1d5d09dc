"""Who may publish what, how old it may be, and the file that says so."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from ortpkg.foundations.errors import SignatureError, UsageError
from ortpkg.package.trust.signing.openssf_signature import FoundSignature, sign_digests
from ortpkg.package.trust.trust_policy import Judgement, TrustPolicy, check_publisher
from ortpkg.package.trust.trust_policy_file import read_policy
from tests.trust.signing.signers import record_of, some_key

RECORD = record_of(**{"manifest.json": b"{}"})
KEYS = {name: some_key() for name in ("vision", "speech")}
POLICY = """
[signers.vision]
key = "vision.pub"
[signers.speech]
key = "speech.pub"

[[packages]]
names = ["vision-*", "oci://models.example/vision/*"]
signers = ["vision"]
native_contexts = true
minimal_version = "2.0"
valid_until = 2027-06-30

[[packages]]
names = ["speech", "vision-old"]
signers = ["speech", "vision"]

[[packages]]
names = ["scratch-?"]
signers = "anyone"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, key in KEYS.items():
        (tmp_path / f"{name}.pub").write_bytes(key.public.pem)
    return tmp_path


@pytest.fixture
def policy(folder: Path) -> TrustPolicy:
    (folder / "trust.toml").write_text(POLICY)
    found = read_policy(folder / "trust.toml")
    assert found is not None
    return found


def signed_by(*names: str) -> tuple[FoundSignature, ...]:
    return tuple(
        FoundSignature(where=name, content=sign_digests(RECORD, name="p", key=KEYS[name]))
        for name in names
    )


def judge(
    policy: TrustPolicy, name: str, version: str, *signers: str, reference: str = ""
) -> Judgement:
    return policy.judge(
        name, version, RECORD, signed_by(*signers), reference=reference, today=dt.date(2027, 6, 30)
    )


def test_the_first_rule_about_a_name_decides(policy: TrustPolicy) -> None:
    found = judge(policy, "vision-digits", "2.1", "vision")
    assert found.is_accepted
    assert found.may_ship_native_contexts
    assert [each.signer.name for each in found.acceptances] == ["vision"]

    speech = judge(policy, "speech", "", "vision")
    assert (speech.is_accepted, speech.may_ship_native_contexts) == (True, False)
    # The second rule is about it as well, and is not asked.
    assert not judge(policy, "vision-old", "2.1", "speech").is_accepted


def test_a_rule_may_be_about_where_a_package_comes_from(policy: TrustPolicy) -> None:
    place = "oci://models.example/vision/digits"

    assert judge(policy, "d", "2", "vision", reference=place).is_accepted
    assert not judge(policy, "d", "2", "speech", reference=place).is_accepted
    assert not judge(policy, "d", "2", "vision", reference="oci://other/vision/d").is_accepted


@pytest.mark.parametrize("reference", ["oci://[::1]:5000/digits", "oci+http://[0::1]:5000/digits"])
def test_no_spelling_of_a_place_finds_a_laxer_rule(folder: Path, reference: str) -> None:
    (folder / "trust.toml").write_text(
        '[signers.vision]\nkey = "vision.pub"\n'
        '[[packages]]\nnames = ["oci://[::1]:5000/*"]\nsigners = ["vision"]\n'
        '[[packages]]\nnames = ["*"]\nsigners = "anyone"\n'
    )
    policy = read_policy(folder / "trust.toml")
    assert policy is not None

    assert not judge(policy, "digits", "1", "speech", reference=reference).is_accepted
    assert judge(policy, "digits", "1", "vision", reference=reference).is_accepted


@pytest.mark.parametrize(
    ("name", "version", "signers", "what"),
    [
        ("vision-digits", "2.0", ("speech",), "has to be signed by 'vision': speech is not"),
        ("vision-digits", "2.0", (), "the package is not signed"),
        ("vision-digits", "1.9", ("vision",), "has version '1.9'; at least 2.0 is demanded"),
        ("vision-digits", "2.0rc1", ("vision",), "at least 2.0"),
        ("vision-digits", "newest", ("vision",), "at least 2.0"),
        ("vision-digits", "9" * 5000, ("vision",), "at least 2.0"),
        ("vision-digits", "", ("vision",), "has no version"),
        ("other", "9", ("vision",), "no rule is about 'other'"),
        ("Vision-digits", "9", ("vision",), "no rule is about 'Vision-digits'"),
        ("scratch-12", "", (), "no rule is about 'scratch-12'"),
    ],
)
def test_what_a_policy_refuses_is_told_with_its_reason(
    policy: TrustPolicy, name: str, version: str, signers: tuple[str, ...], what: str
) -> None:
    found = judge(policy, name, version, *signers)

    assert not found.is_accepted
    assert not found.may_ship_native_contexts
    assert what in found.reason
    assert str(policy.source) in found.reason


def test_after_its_last_day_a_rule_accepts_nothing(policy: TrustPolicy) -> None:
    found = policy.judge(
        "vision-digits", "2", RECORD, signed_by("vision"), today=dt.date(2027, 7, 1)
    )

    assert "was valid until 2027-06-30" in found.reason


def test_anyone_may_publish_where_the_rule_says_so(policy: TrustPolicy) -> None:
    assert judge(policy, "scratch-1", "").is_accepted


def test_an_installer_asks_one_function(policy: TrustPolicy) -> None:
    assert check_publisher(policy, "speech", "", RECORD, signed_by("speech")).is_accepted
    assert not check_publisher(None, "any", "", RECORD, ()).may_ship_native_contexts
    with pytest.raises(SignatureError, match="no rule is about 'other'"):
        check_publisher(policy, "other", "", RECORD, signed_by("speech"))


RULE = '[signers.a]\nkey = "vision.pub"\n[[packages]]\nnames = ["x"]\nsigners = ["a"]\n'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("packages = 3", "packages is not a list of one [[packages]] or more"),
        ("", "packages is not a list"),
        ("= 1", "is no TOML"),
        (RULE + "minimum_version = '1'", "packages[1].minimum_version is not known here"),
        (RULE + "minimum_version = '1'", "did you mean 'minimal_version'"),
        ("signer = 3\n" + RULE, "signer is not known here"),
        ("signers = 3\n[[packages]]", "signers is not a table"),
        (RULE.replace("signers = [", "signs = ["), "packages[1].signs is not known"),
        (RULE.replace('names = ["x"]\n', ""), "packages[1] has no names"),
        (RULE.replace('["x"]', "[]"), "packages[1].names is not a list of one text or more"),
        (RULE.replace('["x"]', '"x"'), "packages[1].names is not a list"),
        (RULE.replace('["a"]', '["b"]'), "there is no [signers.b]"),
        (RULE.replace('["a"]', '"a"'), 'neither a list of signers nor "anyone"'),
        (RULE + "native_contexts = 1", "is neither true nor false"),
        (RULE.replace('["a"]', '"anyone"') + "native_contexts = true", "cannot be true where"),
        (RULE + "minimal_version = 'new'", "is 'new', no version such as 2.1"),
        (RULE + f"minimal_version = '{'9' * 5000}'", "no version such as 2.1"),
        (RULE + "minimal_version = 2.1", "minimal_version is not a text"),
        (RULE + "valid_until = '2027-01-01'", "is not a day such as 2027-06-30"),
        (RULE + "valid_until = 2027-01-01T00:00:00", "is not a day such as 2027-06-30"),
        (RULE.replace("vision.pub", "none.pub"), "cannot be read: No such file"),
        (RULE.replace("key =", "identity ="), "has to have key, or identity and trust_roots"),
        (RULE.replace('"vision.pub"', "1"), "signers.a.key is not a text"),
    ],
)
def test_a_wrong_policy_is_refused_whole_and_says_where(folder: Path, text: str, what: str) -> None:
    (folder / "trust.toml").write_text(text)

    with pytest.raises(UsageError) as caught:
        read_policy(folder / "trust.toml")

    assert what in str(caught.value)
    assert str(folder / "trust.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a = " + "[" * 50_000, "is no TOML"),
        ("a = " + "{a = " * 50_000, "is no TOML"),
        (".".join(["a"] * 100_000) + " = 1", "has a key of more than 64 parts in line 1"),
        ("\n" + "[" + ' . "a b"' * 100 + "]", "has a key of more than 64 parts in line 2"),
        ("#" * (1 << 20) + "#", "is larger than"),
        ("a = '\\x00'\n\x00", "is no TOML"),
    ],
)
def test_a_policy_that_would_never_be_read_is_refused_at_once(
    tmp_path: Path, text: str, what: str
) -> None:
    (tmp_path / "trust.toml").write_text(text)

    with pytest.raises(UsageError, match=what):
        read_policy(tmp_path / "trust.toml")


def test_what_a_package_is_called_and_where_it_comes_from_have_a_say_each(
    policy: TrustPolicy,
) -> None:
    """A laxer rule about the name that a package gives itself is not enough."""

    def judged(name: str, reference: str, called: str, *signers: str) -> Judgement:
        signatures = signed_by(*signers)
        day = dt.date(2027, 6, 30)
        return policy.judge(
            name, "2", RECORD, signatures, reference=reference, called=called, today=day
        )

    place = "oci://models.example/vision/x"
    assert "has to be signed by 'vision'" in judged("scratch-1", place, "x").reason
    assert judged("scratch-1", place, "x", "vision").is_accepted
    assert "calls itself 'scratch-1'" in judged("scratch-1", "", "speech", "speech").reason
    assert "calls itself ''" in judged("", "", "speech", "speech").reason
    assert judged("speech", "", "mine", "speech").is_accepted
    both = judged("speech", place, "x", "vision", "speech")
    assert both.is_accepted
    assert not both.may_ship_native_contexts


def test_the_policy_that_holds_is_the_environment_s_or_that_of_the_settings(
    folder: Path, policy: TrustPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CONFIG_DIR", str(folder / "none"))
    assert read_policy() is None

    monkeypatch.setenv("ORTPKG_CONFIG_DIR", str(folder))
    assert read_policy() == policy
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(folder / "elsewhere.toml"))
    with pytest.raises(UsageError, match=r"elsewhere\.toml"):
        read_policy()
