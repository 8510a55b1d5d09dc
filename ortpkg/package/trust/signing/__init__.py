"""Signatures of packages in the OpenSSF model signing format, with only ``cryptography``.

``openssf_signature`` signs what digests.json records, and checks what a signature covers. The other
modules are its parts: ``statement`` (the signed content), ``signature_bundle`` (the file format),
keys and certificates (the only users of ``cryptography``), and the files in a package.
"""
