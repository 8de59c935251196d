// train: transformer language models on any number of ranks. This program answers --help and its like itself; for all
// else it becomes train-job, which carries LibTorch: to load that takes the better part of a second.
#include "app/become.hpp"
#include "app/run_tool.hpp"
#include "config/train_config.hpp"

#include <cstdlib>

namespace {

/// The threads of LibTorch's OpenMP run-time wait for work by spinning, for milliseconds if nobody says otherwise: with
/// more runnable threads than cores steps took fifty times as long. Some milliseconds bridge the gaps of a step; with a
/// twentieth of them, threads of a virtual machine slept and were woken slowly, for a third of the step. Read when the
/// run-time is loaded.
void let_threads_spin_briefly() {
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "200000", 0);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  try {
    const auto line = parse_command_line<TrainConfig>(arguments);
    if (line.answer) return give_answer(tool_of(line.config), *line.answer);
  } catch (const Error&) {  // explained once, by one rank of the job
  }
  let_threads_spin_briefly();
  return become("train-job", tool_of(TrainConfig{}), argv);
}
