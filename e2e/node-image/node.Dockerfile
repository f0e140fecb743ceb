# A node as the kind CLI expects one, without systemd: `files/init` is its first process.
ARG SYSTEM
FROM ${SYSTEM}
COPY kubeadm kubelet kubectl /usr/bin/
COPY init journalctl crictl /usr/local/bin/
COPY containerd.toml /etc/containerd/config.toml
COPY default-cni.yaml default-storage.yaml /kind/manifests/
# The images that kubeadm asks for are imported when the node starts: nothing is pulled.
COPY version images.tar /kind/
RUN mkdir -p /etc/kubernetes/manifests
ENV container=docker
ENTRYPOINT ["/usr/local/bin/init"]
