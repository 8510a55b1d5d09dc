"""Transfer of packages between machines: OCI artifacts and their repositories.

Repositories are OCI registries and OCI image layouts. Single files lie on web servers, in buckets
and on hubs, and are read in parts.

This package knows bytes and documents. Which variant a machine needs, and where a machine keeps
what it downloaded, is the business of ``store`` and the layers above it.

Other folders may import: ``artifact``, ``credentials``, ``descriptors``, ``document_layer``,
``package_index``, ``referrers``, ``registry_client``, ``remote_file``, ``remote_opening``,
``repositories``, ``repository``, ``secret``.
"""
