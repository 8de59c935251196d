// What train becomes once it is to train: tools/train.cpp says why. What it does is lib/train/train_job.hpp.
#include "train/train_job.hpp"
#include "app/leave.hpp"
#include "app/run_tool.hpp"
#include "config/train_config.hpp"

int main(int argc, char** argv) {
  lockstep::leave(lockstep::run_tool<lockstep::TrainConfig>(argc, argv, lockstep::parallel_job, lockstep::train));
}
