"""The sink, what a query writes: rows as publishes (`outgoing`, `frames`), their answers (`publish`), Spark's writers.

Not here: the connection and the options, which the source has, too.
"""
