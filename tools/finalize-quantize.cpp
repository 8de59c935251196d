#include "app/run_tool.hpp"
#include "artifact/finalize.hpp"

int main(int argc, char** argv) {
  return lockstep::run_tool<lockstep::FinalizeConfig>(argc, argv, lockstep::parallel_job, lockstep::finalize_quantize);
}
