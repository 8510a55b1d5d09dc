"""One registry has many spellings, and a rule holds for all of them."""

from __future__ import annotations

import pytest

from ortpkg.package.trust.place_patterns import is_match


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("oci://[::1]:5000/vision/*", "oci://[::1]:5000/vision/digits"),
        ("oci://[::1]/vision/*", "oci://[0:0:0:0:0:0:0:1]/vision/digits"),
        ("oci://[2001:DB8::1]/*", "oci://[2001:db8:0::1]:443/digits"),
        ("oci://models.example/*", "oci://models.example:443/digits"),
        ("oci://models.example:443/*", "oci://models.example/digits"),
        ("oci://models.example:*/*", "oci://models.example/digits"),
        ("oci://models.example/*", "oci+http://models.example/digits"),
        ("oci://models.example/*", "oci+http://models.example:80/digits"),
        ("oci://models.example/*", "oci://models.example./digits"),
        ("oci://models.example./*", "oci://models.example/digits"),
        ("OCI://Models.Example/*", "oci://models.example/digits"),
        ("oci://*/digits", "oci://models.example/digits"),
        ("oci://127.0.0.1:5000/*", "oci://127.1:5000/digits"),
        ("oci://127.0.0.1:5000/*", "oci://2130706433:5000/digits"),
        ("oci://models.example:5000/*", "oci://models.example:05000/digits"),
        ("oci://docker.io/library/digits", "oci://docker.io/digits"),
        ("oci://docker.io/digits", "oci://index.docker.io/library/digits"),
        ("oci://index.docker.io/me/*", "oci://registry-1.docker.io:443/me/digits"),
        ("https://models.example/own/*", "https://MODELS.example:443/own/p.ortpkg"),
        ("https://models.example/own/*", "https://models.example/x/../own/./p.ortpkg"),
        ("https://models.example/own/*", "https://models.example/%6fwn/p.ortpkg"),
        ("https://models.example/own/*", "ortpkg+http://models.example/own/p.ortpkg"),
        ("hf://me/digits/*", "hf://models/Me/digits@main/p.ortpkg"),
        ("hf://datasets/me/digits/*", "hf://datasets/me/digits/p.ortpkg"),
        ("oci-layout:/srv/[a]/*", "oci-layout:/srv/x/../[a]/digits"),
        ("/srv/own/*", "/srv/x/../own/p.ortpkg"),
        ("/srv/own/*", "//srv/own/p.ortpkg"),
        ("oci-layout:/srv/own/*", "oci-layout://srv//own/digits"),
        ("oci://10.0.0.1:5000/*", "oci://[::ffff:10.0.0.1]:5000/digits"),
        ("oci://[::ffff:a00:1]:5000/*", "oci://10.0.0.1:5000/digits"),
        ("oci://*:443/*", "oci://models.example/digits"),
        ("https://models.example/own/*", "https://models.example//own///p.ortpkg"),
        ("https://models.example/own/*", "https://models.example/own%2Fp.ortpkg"),
        ("https://models.example/own/*", "https://models.example/x%2f..%2Fown/p.ortpkg"),
        ("https://models.example/own+x/*", "https://models.example/own%2bx/p.ortpkg"),
        ("https://models.example/b%C3%A4r/*", "https://models.example/b%c3%a4r/p.ortpkg"),
        ("https://models.example/bär/*", "https://models.example/b%c3%a4r/p.ortpkg"),
        ("s3://bucket/own/*", "s3://bucket//own//p.ortpkg"),
        ("vision-[1]", "vision-[1]"),
        ("vision-?*", "vision-digits"),
    ],
)
def test_a_pattern_matches_every_spelling_of_its_place(pattern: str, place: str) -> None:
    assert is_match(pattern, place)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("oci+http://models.example/*", "oci://models.example/digits"),
        ("oci://localhost:5000/*", "oci://127.0.0.1:5000/digits"),
        ("oci://127.0.0.1:5000/*", "oci://localhost:5000/digits"),
        ("oci://127.0.0.1:5000/*", "oci://[::1]:5000/digits"),
        ("oci://[::1]:5000/*", "oci://localhost:5000/digits"),
        ("oci://models.example:80/*", "oci://models.example/digits"),
        ("oci://models.example/own/*", "https://models.example/own/p.ortpkg"),
        ("oci://docker.io/library/digits", "oci://other.example/digits"),
        ("oci://docker.io/digits", "oci://docker.io/me/digits"),
        ("oci-layout:/srv/*", "oci-layout:/srv/../digits"),
        ("/srv/own/*", "/srv/own/../p.ortpkg"),
        ("https://models.example/own/*", "https://models.example/own/../p.ortpkg"),
        ("oci://*:443/*", "oci://models.example:5000/digits"),
        ("https://models.example/a%2A", "https://models.example/axyz"),
        ("s3://bucket/own/*", "s3://bucket/other/p.ortpkg"),
        ("vision-[12]", "vision-1"),
        ("Vision", "vision"),
        ("hf://me/digits/*", "hf://datasets/me/digits/p.ortpkg"),
    ],
)
def test_a_pattern_matches_no_other_place(pattern: str, place: str) -> None:
    assert not is_match(pattern, place)
