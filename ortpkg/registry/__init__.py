"""Packages on their way between machines: references, artifacts, and repositories of them.

Repositories are OCI registries and OCI image layouts. Single files lie on web servers, in buckets
and on hubs, and are read in parts.

It knows bytes and documents, not which variant a machine wants, and not where a machine keeps what
arrived: that is ``store`` and what stands above it.

Other folders may import: ``artifact``, ``credentials``, ``descriptors``, ``document_layer``,
``http_addresses``, ``package_index``, ``references``, ``referrers``, ``registry_client``,
``remote_file``, ``remote_files``, ``repositories``, ``repository``, ``secret``, ``url_references``.
"""
