// prepare-data: text to token shards; prepare-data(1).
#include "app/leave.hpp"
#include "app/run_tool.hpp"
#include "config/prepare_config.hpp"
#include "prepare/prepare.hpp"

int main(int argc, char** argv) {
  // Libraries of object stores cannot be taken down in the order in which static objects go.
  lockstep::leave(
      lockstep::run_tool<lockstep::PrepareConfig>(argc, argv, lockstep::parallel_job, lockstep::prepare_data));
}
