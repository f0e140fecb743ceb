"""Grafana dashboards: rows of panels, and whatever metric is on none of them added at the end."""
