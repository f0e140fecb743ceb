# One static executable of Kubernetes as an image of its own; kubeadm's manifests say how it is started.
FROM scratch
ARG BINARY
COPY ${BINARY} /usr/local/bin/
