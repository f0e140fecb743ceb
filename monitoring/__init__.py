"""What Prometheus and Grafana are told about Ferry, made from the metrics that the code declares.

`python -m monitoring` writes the alert and recording rules, the dashboards and the two reference pages;
a query that names a metric or a label that nothing exports ends it with an error.
"""
