// What checkpoint-inspect is asked. The declaration language: config/option.hpp.
#pragma once

#include "base/verify_level.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

/// A value of a component and what it is to be: "trainer.step=7".
struct ValueSetting {
  std::string name;  // COMPONENT.KEY
  std::string json;  // a valid text of it
};
/// Throws Error(usage) with the reason. Pure.
ValueSetting parse_setting(const std::string& text);

struct InspectConfig {
  std::vector<std::string> subjects;  // RUN or CKPT, then optionally a tensor's name; with diff: A B
  bool tree = false;
  std::optional<VerifyLevel> verify;  // absent: not asked
  bool diff = false;
  bool show_config = false;
  bool components = false;
  bool layouts = false;
  bool nonfinite = false;
  bool rebuild_view = false;
  std::optional<std::string> set;  // as parse_setting takes it
  std::string output;              // of set: the folder to create; of histogram and curve: an SVG file
  bool who = false;                // of one tensor
  bool histogram = false;          // of one tensor
  bool curve = false;              // of a run: its losses, as a picture
};

void describe(Declaration& visit, InspectConfig& config);
Tool tool_of(const InspectConfig& config);
void check(const InspectConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
