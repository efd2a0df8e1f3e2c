"""The source, what a query reads: offsets and batches (`planner`), ranges as rows (`reader`), columns (`decoder`).

Not here: Spark's interface (`leafd_spark.datasource`), the connection and the options, which the sink has, too.
"""
