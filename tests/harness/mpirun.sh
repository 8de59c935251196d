#!/bin/sh
# mpirun.sh RANKS PROGRAM [ARGUMENT …]: starts a test on this machine, whatever its cores, as any user, with a bound on its time.
# The settings let more ranks than cores run without spinning; they are for tests, not for jobs.
ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# For builds with the address sanitizer. Its interceptor of __tls_get_addr takes what happens to lie before a thread's
# variables for the header of a glibc of old, up to GCC 13, and then the look for leaks ends in a fault.
export ASAN_OPTIONS="${ASAN_OPTIONS:-fast_unwind_on_malloc=0:intercept_tls_get_addr=0}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$(dirname "$0")/mpi_leaks.supp:print_suppressions=0}"
session=$(mktemp -d) || exit 1
trap 'rm -rf "$session"' EXIT
TMPDIR=$session ${MPIRUN:-mpirun} -n "$ranks" -quiet --timeout "${LOCKSTEP_TEST_TIMEOUT:-1750}" "$@"
