// What checkpoint-reshard is told. The declaration language: config/option.hpp.
#pragma once

#include "config/option.hpp"
#include "config/plugin_options.hpp"
#include "config/values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class Problems;
struct Tool;

/// How the new checkpoint is laid out. "parts=4", "tp=2,dp_shard=4", "ep=2,ep_outside=true,dp_shard=4,parts=2", JSON:
/// {"parts": 4}, or a configuration of train, over which words count that follow it: "run.yaml,dp_replicate=2".
struct ReshardTarget {
  std::optional<std::int64_t> parts = {};  // part files a component, at least 1; absent: one
  /// The mesh on which a job would have written it: axes as parallel.* names them, each with its ranks. Empty: the mesh
  /// stays.
  std::vector<std::pair<std::string, std::int64_t>> axes = {};
  std::optional<bool> ep_outside = {};  // ranks of ep are far from each other, not neighbours; absent: no
  static std::string form();
  static ReshardTarget parse(const std::string& text);  // throws Error(usage) with the reason
  std::string text() const;
  bool operator==(const ReshardTarget&) const = default;
};

/// The types that weights can be cast to.
enum class CastDtype { bf16, fp16, fp32, fp64 };
ChoiceList<CastDtype> choices_of(CastDtype);

struct ReshardConfig {
  std::vector<std::string> plugin;          // shared objects that are opened
  PluginValues plugin_values;               // of their options
  std::vector<std::string> checkpoints;     // or runs, or Hugging Face folders: several for an average
  bool average = false;                     // of the weights of all checkpoints
  std::optional<ReshardTarget> to;          // absent: one part file a component
  bool consolidate = false;                 // one part file a component: the same as parts=1
  std::vector<NamePattern> only;            // components, or patterns of full names, that are written; empty: all
  std::vector<NamePattern> skip;            // that are not
  std::optional<CastDtype> cast;            // absent: every tensor keeps its type
  ByteSize memory{std::uint64_t{2} << 30};  // that the pieces in work may take, in each process
  Seconds watchdog{600};                    // without progress of a rank; 0: none
  std::string output;                       // folder to create
};

void describe(Declaration& visit, ReshardConfig& config);
Tool tool_of(const ReshardConfig& config);
void check(const ReshardConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
