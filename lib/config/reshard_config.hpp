// The options of checkpoint-reshard. How options are declared: options/option.hpp.
#pragma once

#include "config/values.hpp"
#include "options/option.hpp"
#include "options/plugin_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class Problems;
struct Tool;

/// ReshardTarget is the layout of the new checkpoint. Forms: "parts=4", "tp=2,dp_shard=4",
/// "ep=2,ep_outside=true,dp_shard=4,parts=2", or JSON such as {"parts": 4}. It can begin with a train configuration,
/// which later words override: "run.yaml,dp_replicate=2".
struct ReshardTarget {
  std::optional<std::int64_t> parts = {};  // part files per component, at least 1; default: one
  /// The mesh of a job that would have written the checkpoint: axes as in parallel.*, with their ranks. Empty: the mesh
  /// stays.
  std::vector<std::pair<std::string, std::int64_t>> axes = {};
  std::optional<bool> ep_outside = {};  // expert-parallel ranks are far apart, not neighbours; default: false
  static std::string form();
  static ReshardTarget parse(const std::string& text);  // throws Error(usage) with the reason
  std::string text() const;
  bool operator==(const ReshardTarget&) const = default;
};

/// Element types that weights can be cast to.
enum class CastDtype { bf16, fp16, fp32, fp64 };
ChoiceList<CastDtype> choices_of(CastDtype);

struct ReshardConfig {
  std::vector<std::string> plugin;          // shared objects to open
  PluginValues plugin_values;               // of the plug-ins' options
  std::vector<std::string> checkpoints;     // checkpoints, runs or Hugging Face folders; several for an average
  bool average = false;                     // average the weights of all checkpoints
  std::optional<ReshardTarget> to;          // default: one part file per component
  bool consolidate = false;                 // one part file per component, as parts=1
  std::vector<NamePattern> only;            // components, or patterns of full names, to write; empty: all
  std::vector<NamePattern> skip;            // components or patterns that are not written
  std::optional<CastDtype> cast;            // default: every tensor keeps its type
  ByteSize memory{std::uint64_t{2} << 30};  // limit for the pieces in work, per process
  Seconds watchdog{600};                    // longest time without progress of a rank; 0: no limit
  std::string output;                       // folder to create
};

void describe(Declaration& visit, ReshardConfig& config);
Tool tool_of(const ReshardConfig& config);
void check(const ReshardConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
