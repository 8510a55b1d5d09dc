"""Model server: answers requests of the Open Inference Protocol (v2) with packages as models.

``served_model`` is one version of a package, opened, tried and ready. ``served_versions`` resolves
a name and a version. ``answering`` runs requests on a bounded number of threads, ``batching`` joins
waiting requests, and ``renewal`` follows names in the store.

None of these depends on a server. ``kserve_server`` combines KServe's parts on a host and a port;
only it and the other ``kserve_`` modules import KServe, which the extra ``serve`` installs.
``http_endpoints`` is the protocol over HTTP without KServe, for :mod:`ortpkg.ray`.

Other folders may import: ``answering``, ``bearer_token``, ``http_endpoints``, ``http_limits``,
``kserve_server``, ``load_log``, ``loading``, ``observer``, ``protocol_tensors``, ``renewal``,
``served_metrics``, ``served_model``, ``served_versions``, ``server_log``, ``serving_options``.
"""
