"""The module by which Spark finds the format `nats` by itself: Spark imports every module whose name begins with
pyspark_, and takes the data source that is called DefaultSource there. Nothing else is here.
"""

from leafd_spark.datasource import NatsDataSource as DefaultSource

__all__ = ["DefaultSource"]
