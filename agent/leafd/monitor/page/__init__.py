"""The status page at the monitoring port: for eyes, in a browser, live by server-sent events.

    history.py   the last hour, sampled every few seconds whether somebody looks or not     (31,680 bytes)
    view.py      what the page shows at one moment, as JSON, and what changed since
    feed.py      makes views while somebody looks, and hands them to a bounded number of readers
    routes.py    the page's paths, who may see them, and the headers that guard them
    page.html, page.css, page.js    what the browser gets: no build step, and nothing from elsewhere

Loaded only when the monitoring port is configured. Not here: HTTP itself (http.py), the reports of
nats-server's form (reports.py, jetstream_report.py).
"""
