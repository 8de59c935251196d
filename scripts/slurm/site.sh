# shellcheck shell=bash
# What differs from site to site; the jobs of this folder source it from the folder where they were submitted. Use a copy of your own with
# SITE=FILE, for instance with
#   module load gcc openmpi hdf5
export PATH="$PWD/build/tools:$PATH"
LAUNCH=${LAUNCH:-srun}              # how ranks are started: srun, "srun --mpi=pmix", mpirun, with options if need be
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}   # srun does not take it over from sbatch by itself
