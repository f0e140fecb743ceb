# Stands in for python:3.11-slim-bookworm, from Debian's packages alone.
ARG DEBIAN
FROM ${DEBIAN}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && ln -s python3 /usr/bin/python \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# The machine's own trust, for builds behind a proxy.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
