// The words of a command line sorted by the declared options: which option each one sets, in which spelling. What the
// values mean is decided later, with those of the files (config/interpret.hpp).
#pragma once

#include "config/document.hpp"
#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/tool.hpp"

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How an option is written on a command line: "--optimizer.lr" in a section, "--dry-run" outside.
std::string spelling_of(const std::string& path);

/// How messages name an option: "optimizer.lr", as files and command lines have it, or "--dry-run".
std::string name_in_messages(const std::string& path);

/// Whether the word after the option is its value. Others take a value after "=" only.
bool takes_next_word(const Option& option);

struct SortedArguments {
  Node common;         // a map: options that all programs share
  Node configuration;  // a map, as a file would say it
  std::vector<std::pair<std::string, Node>>
      elements;  // "optimizer.groups.slow.lr_scale", to be set once the files are merged
};

/// Sorts `arguments`, without the program's name. Unknown options, missing values and words that nobody takes become
/// problems.
SortedArguments sort_arguments(const Tool& tool, const Declaration& common, const Declaration& configuration,
                               const std::vector<std::string>& arguments, Problems& problems);

/// Sets an element, or a key of an element, of a list in `document`; a list that only `declaration` knows starts with
/// its built-in value.
void set_element(Node& document, const Declaration& declaration, const std::string& path, const Node& value,
                 Problems& problems);

}  // namespace lockstep
