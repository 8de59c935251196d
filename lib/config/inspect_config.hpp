// The options of checkpoint-inspect. How options are declared: options/option.hpp.
#pragma once

#include "base/verify_level.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

/// A value of a component and its new content: "trainer.step=7".
struct ValueSetting {
  std::string name;  // COMPONENT.KEY
  std::string json;  // valid JSON text
};
/// Parses a setting. Throws Error(usage) with the reason. Pure.
ValueSetting parse_setting(const std::string& text);

struct InspectConfig {
  std::vector<std::string> subjects;  // RUN or CKPT, optionally a tensor's name; with diff: A B
  bool tree = false;
  std::optional<VerifyLevel> verify;  // not set: no verification
  bool diff = false;
  bool show_config = false;
  bool components = false;
  bool layouts = false;
  bool nonfinite = false;
  bool rebuild_view = false;
  std::optional<std::string> set;  // in the form of parse_setting
  std::string output;              // of set: the folder to create; of histogram and curve: the SVG file
  bool who = false;                // of one tensor
  bool histogram = false;          // of one tensor
  bool curve = false;              // of a run: a picture of its losses
};

void describe(Declaration& visit, InspectConfig& config);
Tool tool_of(const InspectConfig& config);
void check(const InspectConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
