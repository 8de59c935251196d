// The body of checkpoint-inspect: questions about a run, a checkpoint or one of its tensors. Only what is asked to
// write writes, and never a file that the manifest lists; one block of memory.
#pragma once

#include "base/error.hpp"
#include "base/json.hpp"
#include "config/inspect_config.hpp"
#include "store/run_directory.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class CheckpointReader;

struct InspectAnswer {
  ExitCode code = ExitCode::done;  // verdict: what was asked does not hold
  std::string text;
  Json json;
  std::vector<std::string> warnings = {};
};

/// The answer to the question that `config` asks. Local. Throws Error(input) if a subject is absent or too damaged to
/// answer from.
InspectAnswer inspect(const InspectConfig& config);

// The single questions.
InspectAnswer list_run(const Path& run);
InspectAnswer summarise(const CheckpointReader& checkpoint);
InspectAnswer show_tree(const CheckpointReader& checkpoint);
InspectAnswer show_config(const CheckpointReader& checkpoint);
/// `name` as in the checkpoint ("optimizer/exp_avg/wte.weight"), or a weight's own name, or a component, whose values
/// are shown.
InspectAnswer show_tensor(const CheckpointReader& checkpoint, const std::string& name);
InspectAnswer show_components(const CheckpointReader& checkpoint);
InspectAnswer show_layouts(const CheckpointReader& checkpoint);
/// Reads all tensors of floating point.
InspectAnswer find_nonfinite(const CheckpointReader& checkpoint);
/// `name` as for show_tensor, but of a tensor.
InspectAnswer show_holders(const CheckpointReader& checkpoint, const std::string& name);
/// Draws it into `picture` too, an SVG file, unless that is empty.
InspectAnswer show_histogram(const CheckpointReader& checkpoint, const std::string& name, const Path& picture);
InspectAnswer verify(const std::vector<Path>& checkpoints, VerifyLevel level);
InspectAnswer compare(const CheckpointReader& a, const CheckpointReader& b);
InspectAnswer show_curve(const Path& run, const Path& picture);  // the same
InspectAnswer rebuild_view(const CheckpointReader& checkpoint);
InspectAnswer set_value(const CheckpointReader& checkpoint, const std::string& name, const Json& value,
                        const Path& output);

}  // namespace lockstep
