// Which files of a dataset of the hub are one of its splits. The rules stand in prepare-data(1).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct SplitChoice {
  std::optional<std::string> configuration;  // of the dataset's README.md
  std::optional<std::string> split;          // absent: train
  std::vector<std::string> data_files;       // patterns that say which files instead of the rules
};

struct HubDatasetFiles {
  std::string id;                  // OWNER/NAME
  std::vector<std::string> names;  // of all files at the commit
  std::string readme;              // the text of README.md; empty if there is none
};

/// The names of the files, sorted. `form_of` says what form the data of a file has, by name; empty: it is no data.
/// Local, pure. Throws Error(input) if there is no such configuration or split, if the rules do not decide, and for a
/// dataset that a script of its own loads.
std::vector<std::string> files_of_split(const HubDatasetFiles& dataset, const SplitChoice& choice,
                                        const std::function<std::string(std::string_view name)>& form_of);

/// Whether names such as train-00000-of-00002.parquet announce files that are not among them.
bool announces_more(const std::vector<std::string>& names);

}  // namespace lockstep
