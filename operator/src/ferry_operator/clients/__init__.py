"""The only code that talks to the Kubernetes API, apart from kopf's watches."""
