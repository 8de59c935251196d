#!/bin/sh
# on_node.sh FOLDER PROGRAM [ARGUMENT …]: runs a rank in FOLDER/HOST, the host being its own of LOCKSTEP_TEST_HOSTS
# (host_names.cpp), so that a relative path leads to storage of that node's own.
folder=$1
shift
hosts=$(printf '%s' "$LOCKSTEP_TEST_HOSTS" | wc -w)
host=$(printf '%s' "$LOCKSTEP_TEST_HOSTS" | cut -d ' ' -f $((OMPI_COMM_WORLD_RANK % hosts + 1)))
cd "$folder/$host" || exit 1
exec "$@"
