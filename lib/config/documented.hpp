// Options as readers meet them: spelled, with the name of their value and all that is to be said, sections in order,
// hidden ones left out. Every face (help, manual, completion) shows exactly this list: config/faces.hpp.
#pragma once

#include "config/option.hpp"
#include "config/tool.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct DocumentedOption {
  enum class Value { none, next_word, after_equals };  // after_equals: optional, and only as --option=VALUE
  std::string spelling;  // "--optimizer.lr", "--data.datasets.N.path" of a list's element N, ".NAME." of a map's
  std::string key;       // in files: "optimizer.lr"; empty: no file may set it
  char letter = '\0';
  Value value = Value::none;
  std::string value_name;  // "NUMBER", "fp32|fp64|bf16"
  std::string brief;
  std::string details;               // may be empty
  std::string notes;                 // unit, range, default; may be empty
  std::vector<std::string> choices;  // what the value may be, if that is a list
  Completes completes = Completes::nothing;
  bool repeatable = false;       // given again, it adds a value
  bool fixed_on_resume = false;  // a resumed run must not change it
};

struct DocumentedSection {
  std::string name;   // "optimizer"; of options without a section "general", of those of all programs "common"
  std::string title;  // "optimizer: how weights are updated"
  std::vector<DocumentedOption> options;
};

struct DocumentedTool {
  Tool tool;
  std::vector<DocumentedOption> positionals;
  std::vector<DocumentedSection> sections;
};

DocumentedTool document(const Tool& tool, const Declaration& declaration);

/// "NUMBER", "FILE", "linear|cosine|constant": what stands for the value of an option.
std::string value_name_of(const Option& option);

/// "--optimizer.lr NUMBER: peak learning rate, … (1/step; from 0 to 1)": under a message about that option.
std::string one_line_help(const Option& option);

}  // namespace lockstep
