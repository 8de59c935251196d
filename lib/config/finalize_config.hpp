// What finalize-quantize is told. The declaration language: config/option.hpp.
#pragma once

#include "config/plugin_options.hpp"
#include "config/values.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

enum class Recipe { none, int8 };  // int8: compressed-tensors pack-quantized, symmetric, per channel
enum class ExportDtype { bf16, fp32 };

struct FinalizeConfig {
  std::vector<std::string> plugin;  // shared objects that are opened
  PluginValues plugin_values;       // of their options
  std::string checkpoint;           // folder of the checkpoint, or of a run
  CheckpointChoice which;           // of a run's checkpoints
  Recipe recipe = Recipe::none;
  ExportDtype dtype = ExportDtype::bf16;  // of the weights that stay unquantised
  std::string output;                     // folder to create
  bool overwrite = false;
  std::optional<std::string> tokenizer;  // folder whose tokenizer files are copied beside the weights
  Seconds watchdog{600};                 // without progress of a rank; 0: none
};

void describe(Declaration& visit, FinalizeConfig& config);
Tool tool_of(const FinalizeConfig& config);
void check(const FinalizeConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
