// checkpoint-reshard(1): writes a checkpoint anew with another number of part files.
#include "app/run_tool.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "reshard/reshard.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_tool<ReshardConfig>(argc, argv, serial_job, [](const ReshardConfig& config, Session&, Output& output) {
    const CheckpointReader source(source_of(config));
    const CheckpointPlan plan = plan_reshard(source, parts_of(config));
    const bool json = output.common().json;
    if (output.common().dry_run) {
      if (json)
        output.print_json({{"source", source.path().string()},
                           {"files", plan.files.size()},
                           {"pieces", plan.pieces.size()},
                           {"bytes", total_bytes(plan)}});
      else
        output.print(describe_plan(plan));
      return 0;
    }
    const Resharded result = reshard(source, plan, config.output);
    if (json) {
      output.print_json({{"source", source.path().string()},
                         {"output", config.output},
                         {"files", plan.files.size()},
                         {"bytes", result.bytes},
                         {"digest_before", to_hex(result.before)},
                         {"digest_after", to_hex(result.after)}});
    } else {
      output.print(fmt::format("{} in {} part files\nstate digest before  {}\nstate digest after   {}\n",
                               human_bytes(result.bytes), plan.files.size(), to_hex(result.before),
                               to_hex(result.after)));
    }
    return 0;
  });
}
