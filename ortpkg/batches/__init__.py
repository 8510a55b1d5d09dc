"""Batches: rows of files through a package and into files, in parts that are written whole.

What of it needs no cluster: which rows there are (``input_files``, ``part_planning``), how they
become inputs (``column_mapping``, ``model_layout``, ``row_feeds``), what a part of them gives
(``part_run``), how that is written (``output_parts``), and what of a job is done
(``batch_folder``). :mod:`ortpkg.ray` runs the same on many machines; docs/adr/0022 says why so.

Only this folder may import: ``csv_rows``, ``image_rows``, ``json_rows``, ``npy_rows``,
``parquet_rows``; other folders may import the rest.
"""
