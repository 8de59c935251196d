# shellcheck shell=bash
# What differs from site to site; the jobs of this folder source it from the folder where they were submitted. Use a copy of your own with
# SITE=FILE, for instance with
#   module load gcc openmpi hdf5
export PATH="$PWD/build/tools:$PATH"
LAUNCH=${LAUNCH:-srun}              # how ranks are started: srun, "srun --mpi=pmix", mpirun, with options if need be
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}   # srun does not take it over from sbatch by itself
# With --gpus-per-task alone, Slurm shows each rank its own GPU and no other, and then GPUs cannot read each other's memory. Here each rank sees
# those of the job on its node and takes its own: rank i of a node takes GPU i.
if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then export SLURM_GPU_BIND=${SLURM_GPU_BIND:-none}; fi
