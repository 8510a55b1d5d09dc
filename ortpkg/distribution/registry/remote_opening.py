"""Opens remote files by their address."""

from __future__ import annotations

from ortpkg.distribution.registry.remote_file import RemoteFile
from ortpkg.package.references.url_references import UrlReference


def open_remote_file(reference: UrlReference) -> RemoteFile:
    """Open the file that a reference names.

    The libraries that read it (urllib3 and ssl, obstore, huggingface_hub) are loaded here.

    Raises:
        UsageError: A library is missing.
        RegistryError: See :class:`RemoteFile`.
    """
    if reference.scheme in ("https", "http", "hf"):
        from ortpkg.distribution.registry.http_transport import HttpTransport

        if reference.scheme == "hf":
            from ortpkg.distribution.registry.hub_file import open_hub_file

            return open_hub_file(reference, HttpTransport())
        from ortpkg.distribution.registry.http_file import HttpFile

        return HttpFile.opened(HttpTransport(), reference.url)
    from ortpkg.distribution.registry.bucket_file import BucketFile

    return BucketFile.opened(reference)
