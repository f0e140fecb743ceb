"""Memory for keys and values: where it lies (`arena`), who has how much (`pool`), how much there is
(`budget`)."""
