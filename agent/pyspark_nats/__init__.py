"""What makes Spark find the format `nats` by itself: it imports every module whose name begins with pyspark_, and takes
the data source that is called DefaultSource there. Nothing else lives here.
"""

from leafd.spark.source import NatsDataSource as DefaultSource

__all__ = ["DefaultSource"]
