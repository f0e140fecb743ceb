# What every image of the cluster builds on: Debian with a container runtime and the tools of pod networks.
ARG DEBIAN
FROM ${DEBIAN}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
       conntrack containerd containernetworking-plugins ethtool iproute2 iptables kmod procps runc socat \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
