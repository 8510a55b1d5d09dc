"""A server's answers: packages as models of the Open Inference Protocol (v2).

``served_model`` is one version of a package, opened, tried and ready; ``served_versions`` says
which of them a name and a version mean; ``answering`` runs requests on a bounded number of threads,
``batching`` joins those that wait, and ``renewal`` follows names in the store.
None of these knows a server. ``kserve_server`` puts KServe's parts together on a host and a port;
it and the other modules of that name are all that imports KServe, which the extra ``serve`` brings.
``http_endpoints`` is the protocol over HTTP without KServe, for :mod:`ortpkg.ray`.

Other folders may import: ``answering``, ``bearer_token``, ``http_endpoints``, ``http_limits``,
``kserve_server``, ``load_log``, ``loading``, ``observer``, ``protocol_tensors``, ``renewal``,
``served_metrics``, ``served_model``, ``served_versions``, ``server_log``, ``serving_options``.
"""
