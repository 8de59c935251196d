// The body of checkpoint-inspect: answers questions about a run, a checkpoint or one of its tensors. It writes only on
// request, and never a file that the manifest lists. It needs memory for one block. Shared parts of the answers:
// store/inspected.hpp.
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
  ExitCode code = ExitCode::done;  // verdict: the answer is no, for example after --verify
  std::string text;
  Json json;
  std::vector<std::string> warnings = {};
};

/// Returns the answer to the question that `config` asks. Local. Throws Error(input) if a subject does not exist or is
/// too damaged to answer from.
InspectAnswer inspect(const InspectConfig& config);

// The single questions.
InspectAnswer list_run(const Path& run);
InspectAnswer summarise(const CheckpointReader& checkpoint);
InspectAnswer show_tree(const CheckpointReader& checkpoint);
InspectAnswer show_config(const CheckpointReader& checkpoint);
/// `name` is a full name ("optimizer/exp_avg/wte.weight"), or a weight's own name, or a component, whose values are
/// shown.
InspectAnswer show_tensor(const CheckpointReader& checkpoint, const std::string& name);
InspectAnswer show_components(const CheckpointReader& checkpoint);
InspectAnswer show_layouts(const CheckpointReader& checkpoint);
/// Reads all floating-point tensors.
InspectAnswer find_nonfinite(const CheckpointReader& checkpoint);
/// `name` is as for show_tensor, but must be a tensor.
InspectAnswer show_holders(const CheckpointReader& checkpoint, const std::string& name);
/// Also draws the histogram into `picture`, an SVG file, unless that is empty.
InspectAnswer show_histogram(const CheckpointReader& checkpoint, const std::string& name, const Path& picture);
InspectAnswer verify(const std::vector<Path>& checkpoints, VerifyLevel level);
InspectAnswer compare(const CheckpointReader& a, const CheckpointReader& b);
/// Also draws the curve into `picture`, an SVG file, unless that is empty.
InspectAnswer show_curve(const Path& run, const Path& picture);
InspectAnswer rebuild_view(const CheckpointReader& checkpoint);
InspectAnswer set_value(const CheckpointReader& checkpoint, const std::string& name, const Json& value,
                        const Path& output);

}  // namespace lockstep
