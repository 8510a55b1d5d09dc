"""Signatures of packages in the OpenSSF model signing format, on ``cryptography`` alone.

``openssf_signature`` signs what digests.json records and says what a signature covers. The rest are
its parts: ``statement`` (what is signed), ``signature_bundle`` (the file that carries it), keys and
certificates, which alone import ``cryptography``, and the files in a package.
"""
