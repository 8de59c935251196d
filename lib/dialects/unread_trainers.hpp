// Recognises configurations of trainers that have no dialect: axolotl, torchtitan and nanoGPT. Names the options that
// stand for their main keys, with the values of the file. Trainers with a dialect: dialects/dialect.hpp.
#pragma once

#include "options/document.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct OtherTrainer {
  std::string name;     // "axolotl"
  std::string options;  // for a command line: "--model.path org/model --optimizer.lr 0.0002"; empty: it has none
  std::string missing;  // what the file asks for and is not supported: "adapters"; empty: nothing
};

/// Reads a YAML document. Pure.
std::optional<OtherTrainer> find_other_trainer(const Node& document);

/// The assignments of a TOML file or of a Python file without indentation; nothing if the text is neither. Keys of TOML
/// have their table before them: "training.steps". Values are texts without quotes and comments. Pure.
std::optional<Node> read_assignments(std::string_view text);

/// Returns the text of the error for this trainer's file.
std::string explain(const OtherTrainer& trainer);

}  // namespace lockstep
