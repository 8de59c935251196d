#!/bin/bash
# scripts/slurm/pipeline.sh [SBATCH-OPTION …]: submits prepare, train and finalize, each after the one before has succeeded; a failure cancels
# what follows. Settings are those of the three jobs, PREPARE_OPTIONS, TRAIN_OPTIONS and FINALIZE_OPTIONS for their OPTIONS:
#   INPUT=corpus DATA=data/corpus CONFIG=configs/llama-tiny.yaml RUN=runs/llama-tiny scripts/slurm/pipeline.sh --partition=long
# Prints the three job numbers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
submit() {   # submit SCRIPT OPTIONS [SBATCH-OPTION …]: prints the job's number
  local script=$1 options=$2
  shift 2
  if [ -n "$options" ]; then export OPTIONS="$options"; else unset OPTIONS; fi
  sbatch --parsable "$@" "$here/$script" | cut -d ';' -f 1
}
after() { printf '%s\n' "--dependency=afterok:$1"; }
prepare=$(submit prepare.sbatch "${PREPARE_OPTIONS:-}" "$@")
train=$(submit train.sbatch "${TRAIN_OPTIONS:-}" "$@" "$(after "$prepare")" --kill-on-invalid-dep=yes)
finalize=$(submit finalize.sbatch "${FINALIZE_OPTIONS:-}" "$@" "$(after "$train")" --kill-on-invalid-dep=yes)
printf 'prepare %s\ntrain %s\nfinalize %s\n' "$prepare" "$train" "$finalize"
