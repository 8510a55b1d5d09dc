"""The trust policy at the door: what it refuses is never fetched, what it takes brings its signatures."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

import ortpkg
from ortpkg.distribution.fetched_documents import read_documents
from ortpkg.distribution.installation import install
from ortpkg.distribution.locking import lock_project, sync_project
from ortpkg.distribution.opening_references import use_package
from ortpkg.distribution.package_signing import sign_artifact, sign_package
from ortpkg.distribution.package_sources import opened_source
from ortpkg.distribution.project.project_file import find_project
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.pulling import pull
from ortpkg.distribution.registry.artifact import (
    PackageFile,
    documents_descriptor,
    dump_artifact,
    file_descriptor,
)
from ortpkg.distribution.registry.document_layer import pack_documents, tar_of
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE
from ortpkg.distribution.registry_signatures import attach_signature, signature_tag
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.upgrading import find_outdated, upgrade
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import ArtifactFormatError, LockError, SignatureError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import PackageDigests, RecordedFile, dump_digests
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import LayoutReference, parse_reference
from ortpkg.package.trust.publisher_trust import publisher_trust
from ortpkg.package.trust.signing import signing_certificates
from ortpkg.package.trust.signing.openssf_signature import sign_digests
from ortpkg.package.trust.signing.signing_keys import PrivateKey, new_private_key
from tests.distribution.conftest import PACKED_PATH, SAMPLES
from tests.registry.file_server import FileServer
from tests.trust.signing.signers import Authority, new_key, record_of

DIGITS = SAMPLES / "digits.ortpackage"
CPU = InstallWishes(variants=("cpu-int8",))
VISION, OTHER = new_private_key(), new_private_key()
AUTHORITY = Authority.new()
RULES = """
[signers.vision]
key = "vision.pub"
[signers.releases]
identity = "releases@models.example"
trust_roots = "authority.pem"

[[packages]]
names = ["digits"]
signers = ["vision", "releases"]
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the policy that holds."""
    (tmp_path / "vision.pub").write_bytes(VISION.public.pem)
    (tmp_path / "other.pub").write_bytes(OTHER.public.pem)
    (tmp_path / "authority.pem").write_bytes(AUTHORITY.pem)

    def write(rules: str) -> Path:
        monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
        (tmp_path / "trust.toml").write_text(rules)
        return tmp_path / "trust.toml"

    return write


def reference_of(layout: OciLayout, version: str = "2") -> LayoutReference:
    found = parse_reference(f"{layout.name}:{version}")
    assert isinstance(found, LayoutReference)
    return found


def signed(layout: OciLayout, key: PrivateKey = VISION, version: str = "2") -> None:
    sign_artifact(reference_of(layout, version), key)


def attached(layout: OciLayout, content: bytes) -> None:
    attach_signature(layout, layout.resolve("2"), content)


def by_certificate(days: tuple[int, int]) -> Callable[[OciLayout], None]:
    def sign(layout: OciLayout) -> None:
        library_key, key = new_key()
        certificate = AUTHORITY.certify(library_key, days=days)
        with patch.object(signing_certificates, "check_valid_now"):  # it was, on that day
            sign_artifact(reference_of(layout), key, certificates=[certificate])

    return sign


def is_nothing_there(store: PackageStore) -> bool:
    """No package, no folder of one, and no blob but documents', each whole."""
    trees = [path for path in store.root.glob("packages/*/*") if path.is_dir()]
    blobs = list(store.blobs.digests())
    return (
        store.packages() == ()
        and not trees
        and len(blobs) == 3
        and all(store.blobs.check(digest) for digest in blobs)
    )


REFUSED: dict[str, tuple[Callable[[OciLayout], object], str]] = {
    "unsigned": (lambda _: None, "the package is not signed"),
    "by another key": (
        lambda layout: signed(layout, OTHER),
        "it is by none of those accepted ('vision', 'releases')",
    ),
    "by an expired certificate": (
        by_certificate((-20, -10)),
        "by none of those accepted ('vision', 'releases'): the certificate of 'CN=signer' has expired",
    ),
    "over other files": (
        lambda layout: attached(layout, sign_digests(record_of(x=b""), name="p", key=VISION)),
        "it is over other files than the package's: ",
    ),
    "no signature": (lambda layout: attached(layout, b"junk"), "it is no JSON document"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_the_policy_refuses_is_not_installed(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path], how: str
) -> None:
    sign, why = REFUSED[how]
    sign(layout)
    file = policy(RULES)

    with pytest.raises(SignatureError) as raised:
        install(f"{layout.name}:2", name="digits", wishes=CPU)

    said = str(raised.value)
    assert said.startswith(f"'{layout.name}:2' ({layout.resolve('2').digest}) is not taken: ")
    assert f"policy '{file}' refuses it: 'digits' has to be signed by 'vision', 'releases'" in said
    assert why in said
    assert is_nothing_there(store)


def _synced(layout: OciLayout, store: PackageStore) -> None:
    folder = store.root.parent
    (folder / "ortpkg.toml").write_text(
        f'[packages.digits]\nfrom = "{layout.name}"\ntag = "2"\nvariants = ["cpu-int8"]\n'
    )
    project = find_project(folder)
    assert project is not None
    sync_project(project)


WAYS: dict[str, Callable[[OciLayout, PackageStore], object]] = {
    "install": lambda layout, _: install(f"{layout.name}:2"),
    "a rehearsal": lambda layout, _: install(f"{layout.name}:2", is_rehearsal=True),
    "pull": lambda layout, store: pull(f"{layout.name}:2", store.root.parent / "copy"),
    "sync": _synced,
    "use": lambda layout, _: use_package(reference_of(layout)),
    "ModelPackage": lambda layout, _: ortpkg.ModelPackage(f"{layout.name}:2"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_policy_is_asked_on_every_way_in(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path], way: str
) -> None:
    policy(RULES)

    with pytest.raises(SignatureError, match="the package is not signed"):
        WAYS[way](layout, store)

    assert is_nothing_there(store)
    assert not (store.root.parent / "copy").exists()
    assert not (store.root.parent / "ortpkg.lock").exists()


def test_a_policy_may_be_named(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path], tmp_path: Path
) -> None:
    signed(layout)
    named = Path(shutil.copy(policy(RULES), tmp_path / "named.toml"))
    policy(RULES.replace("digits", "nothing"))

    with pytest.raises(SignatureError, match=r"trust\.toml' refuses it: no rule is about 'digits'"):
        install(f"{layout.name}:2", wishes=CPU)
    install(f"{layout.name}:2", wishes=CPU, trust_policy=named)
    assert store.find("digits").digest == layout.resolve("2").digest


def test_signatures_lie_in_the_package_that_is_installed(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path], tmp_path: Path
) -> None:
    for key in (OTHER, VISION):
        signed(layout, key)
    attached(layout, sign_digests(record_of(x=b""), name="stale", key=OTHER))
    policy(RULES + "native_contexts = true\n")

    report = install(f"{layout.name}:2", wishes=CPU)

    root = store.open("digits").root
    further = f"model.sig.d/{OTHER.public.digest[:16]}.sig"
    assert {path.relative_to(root).as_posix() for path in root.rglob("*.sig")} == {
        "model.sig",
        further,
    }
    (acceptance,) = report.plan.vouching.acceptances
    assert acceptance.signer.name == "vision"
    assert ortpkg.verify(root).is_intact
    assert store.open("digits").receipt.files["model.sig"].nbytes > 0
    trust = publisher_trust(open_package(root))
    assert report.plan.fetched.artifact.files[
        "models/classifier/cpu-int8/model.onnx"
    ].layer.sha256 in (trust.digests)
    pull("digits", tmp_path / "copy", wishes=CPU)
    assert (tmp_path / "copy" / further).read_bytes() == (root / further).read_bytes()


def test_a_place_may_be_trusted_and_so_is_what_came_from_there(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path]
) -> None:
    signed(layout)
    policy(RULES.replace('"digits"', f'"{layout.name}"') + "native_contexts = true\n")

    install(f"{layout.name}:2", wishes=CPU)

    opened = store.open("digits")
    assert publisher_trust(open_package(opened.root)).digests
    elsewhere = Path(shutil.copytree(opened.root.parent, store.root.parent / "tree"))
    copied = publisher_trust(open_package(elsewhere / opened.root.name))
    assert "no rule is about 'digits'" in copied.why_none


def test_without_a_policy_signatures_come_along_and_wrong_ones_are_no_obstacle(
    layout: OciLayout, store: PackageStore, caplog: pytest.LogCaptureFixture
) -> None:
    signed(layout)
    attached(layout, b"junk")

    report = install(f"{layout.name}:2", wishes=CPU)

    assert list(report.plan.vouching.signatures) == ["model.sig"]
    assert report.plan.vouching.acceptances == ()
    broken = OciLayout(Path(layout.name.partition(":")[2]))
    manifest = broken.read_manifest(broken.resolve(signature_tag(layout.resolve("2").digest)))
    broken.write_manifest(
        manifest.replace(b'"layers":[', b'"layers":[7,'),
        MANIFEST_MEDIA_TYPE,
        tag=signature_tag(layout.resolve("2").digest),
    )
    assert install(f"{layout.name}:2", wishes=CPU).plan.vouching.signatures == {}
    assert "are left out: the signatures sha256:" in caplog.text


def test_who_claims_another_s_key_takes_no_name_from_him(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path]
) -> None:
    with opened_source(reference_of(layout), store) as source:
        record = read_documents(source).record
    forged = sign_digests(record, name="digits", key=OTHER).replace(
        OTHER.public.digest.encode(), VISION.public.digest.encode()
    )
    for content in (forged, forged + b" ", sign_digests(record, name="digits", key=VISION)):
        attached(layout, content)
    policy(RULES)

    report = install(f"{layout.name}:2", wishes=CPU)

    signatures = list(report.plan.vouching.signatures)
    assert len(signatures) == 3
    assert signatures[:2] == ["model.sig", f"model.sig.d/{VISION.public.digest[:16]}.sig"]
    assert ortpkg.verify(store.open("digits").root).is_intact


def test_who_signs_later_is_found_by_an_upgrade(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path]
) -> None:
    install(f"{layout.name}:2", wishes=CPU)
    signed(layout)

    found = upgrade(store.find("digits"), store=store)

    assert found.is_signed_anew
    assert (store.open("digits").root / "model.sig").is_file()
    assert upgrade(store.find("digits"), store=store).is_current
    policy(RULES.replace('"digits"', '"none"'))
    with pytest.raises(SignatureError, match="no rule is about 'digits'"):
        upgrade(store.find("digits"), store=store)


def test_a_package_that_calls_itself_something_else_is_not_what_was_asked_for(
    layout: OciLayout, store: PackageStore, policy: Callable[[str], Path], tmp_path: Path
) -> None:
    """A registry gives, in place of digits, what is harmless under its own name."""
    copy = Path(shutil.copytree(DIGITS, tmp_path / "scratch.ortpackage"))
    ortpkg.edit(copy, ortpkg.PackageEdits(name="scratch"))
    publish(copy, layout, tags=["2"])
    policy(RULES + '[[packages]]\nnames = ["scratch"]\nsigners = "anyone"\n')

    install(f"{layout.name}:2", wishes=CPU)
    with pytest.raises(
        SignatureError, match="asked for as 'digits' and calls itself 'scratch', which the rule"
    ):
        install(f"{layout.name}:2", name="digits", wishes=CPU)
    assert [each.name for each in store.packages()] == ["scratch"]


def test_a_file_of_a_package_has_no_signature_s_name(
    layout: OciLayout, store: PackageStore
) -> None:
    with opened_source(reference_of(layout), store) as source:
        fetched = read_documents(source)
    name = f"model.sig.d/{'0' * 16}.sig"
    digests = PackageDigests(
        files={**fetched.digests.files, name: RecordedFile.of(hash_bytes(b""))}
    )
    documents = {**fetched.documents, "digests.json": dump_digests(digests)}
    content = pack_documents(documents)
    layer = documents_descriptor(
        digest=f"sha256:{hash_bytes(content).sha256}",
        nbytes=len(content),
        tar_digest=f"sha256:{hash_bytes(tar_of(documents)).sha256}",
    )
    layout.write_blob(layer, lambda: io.BytesIO(content))
    empty = file_descriptor(name, sha256=hash_bytes(b"").sha256, nbytes=0, variants=None)
    artifact = replace(
        fetched.artifact,
        documents=layer,
        files={**fetched.artifact.files, name: PackageFile(path=name, layer=empty, variants=None)},
        package_digest=digests.package_digest,
    )
    layout.write_manifest(dump_artifact(artifact), MANIFEST_MEDIA_TYPE, tag="2")

    with pytest.raises(ArtifactFormatError, match="is the name of a signature, not of a file"):
        install(f"{layout.name}:2", wishes=CPU)


def test_a_packed_file_elsewhere_brings_its_signatures(
    server: FileServer, store: PackageStore, policy: Callable[[str], Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    policy(RULES)
    with pytest.raises(SignatureError, match="the package is not signed"):
        install(server.url + PACKED_PATH, wishes=CPU)

    for key in (OTHER, VISION):
        sign_package(copy, key)
    ortpkg.pack(copy, tmp_path / "signed.ortpkg")
    server.files[PACKED_PATH] = (tmp_path / "signed.ortpkg").read_bytes()
    install(server.url + PACKED_PATH, wishes=CPU)

    root = store.open("digits").root
    assert (root / "model.sig").read_bytes() == next(copy.glob("model.sig.d/*")).read_bytes()
    assert len(list(root.rglob("*.sig"))) == 2


class TestRollback:
    """A registry gives an old version, as well signed as the new, under the new tag."""

    @pytest.fixture
    def went_back(self, layout: OciLayout, tmp_path: Path) -> OciLayout:
        """digits 1.0.0 and 2.0.0 signed, 2.0.0 locked; then tag 2 names 1.0.0 again."""
        new = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
        ortpkg.edit(new, ortpkg.PackageEdits(version="2.0.0"))
        sign_package(new, VISION)
        signed(layout)
        old = layout.read_manifest(layout.resolve("2"))
        publish(new, layout, tags=["2"])
        (tmp_path / "ortpkg.toml").write_text(
            f'[packages.digits]\nfrom = "{layout.name}"\ntag = "2"\n'
        )
        project = find_project(tmp_path)
        assert project is not None
        lock_project(project)
        layout.write_manifest(old, MANIFEST_MEDIA_TYPE, tag="2")
        return layout

    def test_it_is_refused_where_the_policy_demands_a_version(
        self, went_back: OciLayout, store: PackageStore, policy: Callable[[str], Path]
    ) -> None:
        policy(RULES + 'minimal_version = "2.0"\n')

        with pytest.raises(
            SignatureError, match=r"'digits' has version '1\.0\.0'; at least 2\.0 is demanded"
        ):
            install(f"{went_back.name}:2", wishes=CPU)
        assert store.packages() == ()

    def test_the_lock_has_the_version_that_it_was_made_for(
        self, went_back: OciLayout, store: PackageStore, policy: Callable[[str], Path]
    ) -> None:
        policy(RULES)
        project = find_project(store.root.parent)
        assert project is not None

        sync_project(project, is_frozen=True)

        assert store.find("digits").digest != went_back.resolve("2").digest
        root = store.open("digits").root
        assert open_package(root).version == "2.0.0"

    def test_a_frozen_sync_asks_the_policy_too(
        self, went_back: OciLayout, store: PackageStore, policy: Callable[[str], Path]
    ) -> None:
        policy(RULES + 'minimal_version = "2.1"\n')
        project = find_project(store.root.parent)
        assert project is not None
        assert went_back.tags()

        with pytest.raises(SignatureError, match=r"at least 2\.1 is demanded"):
            sync_project(project, is_frozen=True)

    def test_without_either_it_is_installed(
        self, went_back: OciLayout, store: PackageStore, policy: Callable[[str], Path]
    ) -> None:
        """As docs/trust.md says: the old version is as well signed as the new one."""
        policy(RULES)

        install(f"{went_back.name}:2", wishes=CPU)

        assert open_package(store.open("digits").root).version == "1.0.0"


def test_tags_of_signatures_are_no_versions(
    layout: OciLayout, store: PackageStore, tmp_path: Path
) -> None:
    manifest = layout.read_manifest(layout.resolve("2"))
    layout.write_manifest(manifest, MANIFEST_MEDIA_TYPE, tag="0.9")
    for number in range(40):
        tag = f"sha256-{number:064x}" + (".sig" if number % 2 else "")
        layout.write_manifest(manifest, MANIFEST_MEDIA_TYPE, tag=tag)
    index = Path(layout.name.partition(":")[2]) / "index.json"
    index.write_text(index.read_text().replace("sha256-" + "0" * 63 + "2", "9.9\\nerror: forged"))
    install(f"{layout.name}:0.9", wishes=CPU)

    outdated = find_outdated(store.find("digits"))

    assert outdated is not None
    assert outdated.newer_tags == ("2",)
    (tmp_path / "ortpkg.toml").write_text(
        f'[packages.digits]\nfrom = "{layout.name}"\nversion = ">9"\n'
    )
    project = find_project(tmp_path)
    assert project is not None
    with pytest.raises(LockError, match=r"it has the tags 0\.9, 2, latest$"):
        lock_project(project)
