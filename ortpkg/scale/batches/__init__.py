"""Batches: run the rows of files through a package and write files, in complete parts.

This folder has everything that needs no cluster: finding the rows (``input_files``,
``part_planning``), making inputs of them (``column_mapping``, ``model_layout``, ``row_feeds``),
running a part (``part_run``), writing it (``output_parts``), and the state of a job
(``batch_folder``). :mod:`ortpkg.scale.ray` runs the same on many machines; docs/adr/0022 explains
why.

Only this folder may import: ``csv_rows``, ``image_rows``, ``json_rows``, ``npy_rows``,
``parquet_rows``; other folders may import the rest.
"""
