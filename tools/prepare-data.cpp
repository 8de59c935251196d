// prepare-data: text to token shards; prepare-data(1).
#include "app/run_tool.hpp"
#include "config/prepare_config.hpp"
#include "data/prepare.hpp"

int main(int argc, char** argv) {
  return lockstep::run_tool<lockstep::PrepareConfig>(argc, argv, lockstep::parallel_job, lockstep::prepare_data);
}
