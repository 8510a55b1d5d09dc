"""Transformers as torch exports them, cut into pieces or not: a corpus, and what runs it."""
