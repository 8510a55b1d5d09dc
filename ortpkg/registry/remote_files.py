"""The file behind an address."""

from __future__ import annotations

from ortpkg.registry.remote_file import RemoteFile
from ortpkg.registry.url_references import UrlReference


def open_remote_file(reference: UrlReference) -> RemoteFile:
    """The file that a reference names.

    Libraries that read it are loaded here: urllib3 and ssl, obstore, huggingface_hub. UsageError
    where one is missing; else it raises as :class:`RemoteFile` says.
    """
    if reference.scheme in ("https", "http", "hf"):
        from ortpkg.registry.http_transport import HttpTransport

        if reference.scheme == "hf":
            from ortpkg.registry.hub_file import open_hub_file

            return open_hub_file(reference, HttpTransport())
        from ortpkg.registry.http_file import HttpFile

        return HttpFile.opened(HttpTransport(), reference.url)
    from ortpkg.registry.bucket_file import BucketFile

    return BucketFile.opened(reference)
