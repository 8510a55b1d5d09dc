"""What a project asks for and has settled: ``ortpkg.toml`` and ``ortpkg.lock``.

``configuration_files`` finds and reads the files, ``project_file`` says which packages a project
wants, ``lock_file`` which bytes of them it was settled on. Nothing is fetched here.
All modules are for ``distribution`` and ``cli``, and for nobody else.
"""
