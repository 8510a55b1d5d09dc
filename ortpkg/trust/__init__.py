"""Decides which options and native contexts of an untrusted package may take effect.

``option_policy`` and ``context_trust`` decide for a package, ``package_verification`` compares its
files with their digests. ``safe_options``, ``session_option_values`` and ``load_config`` are the
lists behind these decisions; ``typed_options_1_32`` and ``library_options`` are the known options
of releases. ``judged_contexts`` are the files that were judged. ``signing`` has the signatures of
packages; ``trust_policy`` with its file and ``policy_place`` say whose signatures are accepted for
what, ``publisher_trust`` what follows for native contexts, ``context_verdict`` what a selection
needs of that, and ``made_contexts`` what was compiled on this machine.

Other folders may import: ``context_trust``, ``context_verdict``, ``judged_contexts``,
``library_options``, ``load_config``, ``option_policy``, ``package_verification``, ``policy_place``,
``publisher_trust``, ``safe_options``, ``session_option_values``, ``signing.openssf_signature``,
``signing.registry_signatures``, ``signing.signature_bundle``, ``signing.signature_files``,
``signing.signed_package``, ``signing.signing_certificates``, ``signing.signing_keys``,
``trust_policy``, ``trust_policy_file``.
"""
