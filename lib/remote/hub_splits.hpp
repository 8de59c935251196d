// Selects the files of a split of a hub dataset. prepare-data(1) documents the rules.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct SplitChoice {
  std::optional<std::string> configuration;  // of the dataset's README.md
  std::optional<std::string> split;          // default: train
  std::vector<std::string> data_files;       // patterns of files, used instead of the rules
};

struct HubDatasetFiles {
  std::string id;                  // OWNER/NAME
  std::vector<std::string> names;  // all files at the commit
  std::string readme;              // text of README.md; empty: none
};

/// Returns the names of the split's files, sorted. `form_of` returns the form of a file's data from its name; empty: no
/// data. Local, pure. Throws Error(input) if there is no such configuration or split, if the rules do not decide, and
/// for a dataset with a loading script.
std::vector<std::string> files_of_split(const HubDatasetFiles& dataset, const SplitChoice& choice,
                                        const std::function<std::string(std::string_view name)>& form_of);

/// Returns whether names such as train-00000-of-00002.parquet imply further files that are missing from the list.
bool announces_more(const std::vector<std::string>& names);

}  // namespace lockstep
