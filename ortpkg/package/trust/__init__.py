"""Decides which options of an untrusted package may take effect, and whose signatures count.

``option_policy`` decides for a package, ``package_verification`` compares its files with their
digests. ``safe_options`` and ``session_option_values`` are the lists behind these decisions;
``typed_options_1_32`` and ``library_options`` are the known options of releases. ``signing`` has
the signatures of packages; ``trust_policy`` with its file and ``policy_place`` say whose signatures
are accepted for what, ``publisher_trust`` what follows for native contexts, and ``made_contexts``
what was compiled on this machine. ``selection.contexts`` decides on compiled contexts.

Other folders may import: ``library_options``, ``made_contexts``, ``option_policy``,
``package_verification``, ``policy_place``, ``publisher_trust``, ``safe_options``,
``session_option_values``, ``signing.openssf_signature``, ``signing.signature_bundle``,
``signing.signature_files``, ``signing.signed_package``, ``signing.signing_certificates``,
``signing.signing_keys``, ``trust_policy``, ``trust_policy_file``.
"""
