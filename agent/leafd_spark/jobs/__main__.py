"""`python -m leafd_spark.jobs`, and the file that spark-submit is given."""

import sys

from leafd_spark.jobs.command import main

if __name__ == "__main__":
    sys.exit(main())
