# kube-proxy with iptables and nothing else: the executable, the shared objects it loads, its match extensions.
ARG SYSTEM
FROM ${SYSTEM} AS tools
COPY collect-iptables /usr/local/bin/
RUN collect-iptables /collected

FROM scratch
COPY --from=tools /collected /
COPY kube-proxy /usr/local/bin/
