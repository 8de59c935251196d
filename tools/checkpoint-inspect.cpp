// checkpoint-inspect(1): lists, shows, verifies and compares checkpoints.
#include "app/run_tool.hpp"
#include "store/inspect.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_tool<InspectConfig>(argc, argv, serial_job, [](const InspectConfig& config, Session&, Output& output) {
    const InspectAnswer answer = inspect(config);
    for (const std::string& warning : answer.warnings) output.log().warning("{}", warning);
    if (output.common().json) {
      output.print_json(answer.json);
    } else {
      output.print(answer.text);
    }
    return static_cast<int>(answer.code);
  });
}
