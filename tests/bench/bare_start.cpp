// The least that an MPI program with LibTorch can do: start, one tensor operation, one reduction, end. What the
// start-up of train is compared with.
#include <ATen/ops/ones.h>
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  double value = at::ones({64}).sum().item<double>();
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%g\n", value);
  MPI_Finalize();
  return 0;
}
