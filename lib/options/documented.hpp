// Options as documented: their spelling, the name of the value, brief, details and notes. Sections keep their order;
// hidden options are left out. Help, manual and completion all show this list: options/faces.hpp.
#pragma once

#include "options/option.hpp"
#include "options/tool.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct DocumentedOption {
  enum class Value { none, next_word, after_equals };  // after_equals: optional, written --option=VALUE
  std::string spelling;  // "--optimizer.lr"; for elements "--data.datasets.N.path" (list) or ".NAME." (map)
  std::string key;       // in files: "optimizer.lr"; empty: not allowed in files
  char letter = '\0';
  Value value = Value::none;
  std::string value_name;  // "NUMBER", "fp32|fp64|bf16"
  std::string brief;
  std::string details;               // may be empty
  std::string notes;                 // unit, range, default; may be empty
  std::vector<std::string> choices;  // possible values, if they are a list
  std::vector<std::string> phrases;  // what each of `choices` does; empty: values of a type without phrases
  Completes completes = Completes::nothing;
  bool repeatable = false;  // each use adds a value
  std::string on_resume;    // "fixed on resume"; empty: a resumed run may change it
};

struct DocumentedSection {
  std::string name;   // "optimizer"; "general": options without a section; "common": options of all programs
  std::string title;  // "optimizer: how weights are updated"
  std::vector<DocumentedOption> options;
};

struct DocumentedTool {
  Tool tool;
  std::vector<DocumentedOption> positionals;
  std::vector<DocumentedSection> sections;
};

DocumentedTool document(const Tool& tool, const Declaration& declaration);

/// Returns the placeholder for the option's value: "NUMBER", "FILE", "linear|cosine|constant".
std::string value_name_of(const Option& option);

/// Returns the option in one line, for use below a message about it: "--optimizer.lr NUMBER: peak learning rate, …
/// (1/step; from 0 to 1)".
std::string one_line_help(const Option& option);

}  // namespace lockstep
