// What checkpoint-reshard is told. The declaration language: config/option.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

/// How the new checkpoint is laid out. "parts=4", or JSON: {"parts": 4}.
struct ReshardTarget {
  std::int64_t parts = 1;  // part files a component, at least 1
  static std::string form();
  static ReshardTarget parse(const std::string& text);  // throws Error(usage) with the reason
  std::string text() const;
  bool operator==(const ReshardTarget&) const = default;
};

struct ReshardConfig {
  std::string checkpoint;           // folder of the checkpoint to read
  std::optional<ReshardTarget> to;  // absent: consolidate
  bool consolidate = false;         // one part file a component: the same as parts=1
  std::string output;               // folder to create
};

void describe(Declaration& visit, ReshardConfig& config);
Tool tool_of(const ReshardConfig& config);
void check(const ReshardConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
