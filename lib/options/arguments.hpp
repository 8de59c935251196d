// Sorts the words of a command line by option, with their spelling. Values are interpreted later, together with those
// of the files (options/interpret.hpp).
#pragma once

#include "options/document.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/tool.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Returns the option as written on a command line: "--optimizer.lr" in a section, "--dry-run" outside. An option with
/// the name of a section has a _ at the end of its path: "--sample" for "sample_".
std::string spelling_of(const std::string& path);

/// Returns the option's name for messages: "optimizer.lr" as in files, or "--dry-run".
std::string name_in_messages(const std::string& path);

/// Returns whether the word after the option is its value. Other options take a value only after "=".
bool takes_next_word(const Option& option);

struct SortedArguments {
  Node common;         // a map of the options that all programs have
  Node configuration;  // a map, as a file would hold it
  std::vector<std::pair<std::string, Node>>
      elements;  // "optimizer.groups.slow.lr_scale"; set after the files are merged
};

/// Sorts `arguments`, without the program's name. Unknown options, missing values and prunable words become
/// problems. `explain` returns the meaning of an unknown name in other vocabularies, or an empty text.
SortedArguments sort_arguments(const Tool& tool, const Declaration& common, const Declaration& configuration,
                               const std::vector<std::string>& arguments, Problems& problems,
                               const std::function<std::string(std::string_view name)>& explain = {});

/// Sets an element, or a key of an element, of a list or map in `document`. If the document does not have the list or
/// map, its default is used first.
void set_element(Node& document, const Declaration& declaration, const std::string& path, const Node& value,
                 Problems& problems);

}  // namespace lockstep
