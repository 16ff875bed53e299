#!/usr/bin/env bash
# Trains on the GPUs that are named, the first two by default.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1}
gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' ' ' | wc -w)
exec torchrun --standalone --nproc-per-node "$gpus" train.py "$@"
