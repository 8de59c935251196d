// What prepare-data is told. The declaration language: config/option.hpp.
#pragma once

#include "config/values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

struct PrepareDataOptions {
  TokenizerChoice tokenizer;
  std::string text_field = "text";  // of each JSON line
  ValidationSplit validation{ValidationSplit::By::hash, 0.01};
  std::int64_t shard_tokens = 100'000'000;  // tokens a shard file, at most
  std::optional<std::string> end_of_text;   // the token's name; absent: the tokenizer's own, if it has one
  std::int64_t seed = 0;                    // of the content hash that chooses validation documents
};

struct PrepareConfig {
  std::vector<std::string> inputs;      // files, globs, folders
  std::string output;                   // folder to create
  bool overwrite = false;               // replace a dataset that is there
  std::optional<std::int64_t> threads;  // a rank; absent: cores / local ranks
  PrepareDataOptions data;
};

void describe(Declaration& visit, PrepareConfig& config);
Tool tool_of(const PrepareConfig& config);
void check(const PrepareConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
