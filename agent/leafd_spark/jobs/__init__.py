"""Jobs: what turns a stream at the hub into tables, and tables into messages. One TOML file describes a job.

    leafd-spark run JOB.toml          (or python -m leafd_spark.jobs, or spark-submit of that module's file)

A job keeps four kinds of tables below one directory, as Parquet files in a directory for each day (or month):

    bronze/day=D/              each message as it came, by the day on which the hub's stream stored it
    dead/day=D/                messages that are no observation, each with the reason
    silver/NAME/day=D/         observations with types, by the day they speak of
    gold/NAME/hour|day|health/day=D/   windows by device and metric, and how regularly each device reports

A batch passes through these modules, in this order:

    job.py                     what a job is
    model.py, jobfile.py       the keys of its TOML file; that file read and judged
    session.py, runner.py      Spark's session and query; what happens in a batch and when
    ingest.py                  in Spark's tasks: messages to rows (`judging.py`), rows to staged files
    admission.py               staged rows that the tables don't have yet enter them
    windows.py, gold.py        windows computed from silver; the touched ones put in place
    results.py                 last values, windows and alarms as messages
    tables.py                  the last three in their order
    partitions.py, touched.py  files and directories: names that say what is in them, atomic changes; notes beside them
    compaction.py, rerun.py    maintenance: few large files; a day made anew from bronze
    planning.py, command.py    what a run would do; the command line

No state is kept but the tables and Spark's checkpoint. Each step leaves the tables the same when it is done twice.
"""
