# A Redis without vectors, from Debian: what an InferenceService's cache is given where no registry answers.
ARG DEBIAN
FROM ${DEBIAN}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends redis-server redis-tools \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
USER 10001:10001
