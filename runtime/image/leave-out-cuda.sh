#!/bin/sh
# Makes an installed torch smaller for machines without a GPU: removes what only a GPU's work loads from the
# site-packages folder $1. What libtorch links by name stays, or torch could not be imported at all.
set -eu
cd "$1"

# Kernels that torch.compile writes for GPUs.
rm -rf triton
# Loaded by cuDNN, cuSOLVER and the profiler when a kernel asks for them.
rm -f nvidia/cudnn/lib/libcudnn_*.so.*
rm -f nvidia/cu*/lib/libcusolver*.so.* nvidia/cu*/lib/libnvperf_*.so torch/lib/libtorch_cuda_linalg.so
rm -f nvidia/nvshmem/lib/libnvshmem_device*
# For compiling against, not for running.
find nvidia torch -name '*.a' -delete
rm -rf torch/include nvidia/*/include
