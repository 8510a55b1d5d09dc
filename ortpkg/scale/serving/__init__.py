"""Model server: answers requests of the Open Inference Protocol (v2) with packages as models.

``served_model`` is one version of a package, opened, tried and ready. ``served_versions`` resolves
a name and a version. ``answering`` runs requests on a bounded number of threads, ``batching`` joins
waiting requests, and ``renewal`` follows names in the store.

None of these depends on a server. ``http_endpoints`` is the application of the protocol over HTTP,
which :mod:`ortpkg.scale.ray` uses, too; ``grpc_service`` has the methods of the gRPC service;
``server`` combines both on a host and two ports. Their libraries come with the extra ``serve``.

Other folders may import: ``answering``, ``bearer_token``, ``http_endpoints``, ``http_limits``,
``load_log``, ``loading``, ``observer``, ``protocol_tensors``, ``renewal``, ``served_metrics``,
``served_model``, ``served_versions``, ``server``, ``server_log``, ``serving_options``.
"""
