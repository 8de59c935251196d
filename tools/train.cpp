// train: transformer language models on any number of ranks. This program answers --help and its like itself; for all else it becomes
// train-job, which carries LibTorch: to load that takes the better part of a second.
#include "app/become.hpp"
#include "app/tool.hpp"
#include "config/train_config.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  try {
    const auto line = parse_command_line<TrainConfig>(arguments);
    if (line.answer) return give_answer(tool_of(line.config), *line.answer);
  } catch (const Error&) {   // explained once, by one rank of the job
  }
  return become("train-job", tool_of(TrainConfig{}), argv);
}
