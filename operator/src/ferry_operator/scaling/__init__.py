"""The built-in autoscaler: replicas follow the requests that wait and run."""
