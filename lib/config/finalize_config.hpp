// The options of finalize-quantize. How options are declared: options/option.hpp.
#pragma once

#include "config/values.hpp"
#include "options/plugin_options.hpp"

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
  std::vector<std::string> plugin;  // shared objects to open
  PluginValues plugin_values;       // of the plug-ins' options
  std::string checkpoint;           // folder of a checkpoint or run
  CheckpointChoice which;           // selects a checkpoint of a run
  Recipe recipe = Recipe::none;
  ExportDtype dtype = ExportDtype::bf16;  // of weights that are not quantised
  std::string output;                     // folder to create
  bool overwrite = false;
  std::optional<std::string> tokenizer;  // folder with tokenizer files to copy beside the weights
  Seconds watchdog{600};                 // longest time without progress of a rank; 0: no limit
};

void describe(Declaration& visit, FinalizeConfig& config);
Tool tool_of(const FinalizeConfig& config);
void check(const FinalizeConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
