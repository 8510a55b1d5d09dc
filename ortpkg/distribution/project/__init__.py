"""Files of a project: requested packages in ``ortpkg.toml``, chosen ones in ``ortpkg.lock``.

``configuration_files`` finds and reads the files, ``project_file`` has the packages that a project
asks for, ``lock_file`` the exact bytes chosen for them. Nothing is fetched here.

Other folders may import: everything here, if they are ``distribution`` or ``cli``.
"""
