// checkpoint-reshard(1): writes a checkpoint anew in other part files, on another mesh, or a part of it, on any
// number of ranks.
#include "app/run_tool.hpp"
#include "reshard/reshard.hpp"

int main(int argc, char** argv) {
  return lockstep::run_tool<lockstep::ReshardConfig>(argc, argv, lockstep::parallel_job, lockstep::checkpoint_reshard);
}
