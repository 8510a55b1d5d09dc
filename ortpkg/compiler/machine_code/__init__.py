"""Runs machine code that was compiled ahead, with only numpy and the standard library.

A compiled partition is code (one position-independent image), constants, and a *program*, which
says which functions of the code run in which order on which buffers. Compilers are in other
folders, and not needed here.

Other folders may import: ``abi``, ``aligned_memory``, ``compilation_stages``, ``cpu_targets``,
``executable_memory``, ``executable_pages``, ``executor_abi``, ``kernel_cache``, ``launch_plan``,
``loaded_program``, ``program``, ``program_checks``, ``program_format``, ``program_parts``,
``program_text``, ``system_waiting``, ``thread_team``.
"""
