// What is fuzzed: each reader of a file that others may have written or damaged. How inputs are made: mutator.hpp; who
// runs them: fuzz.cpp.
#pragma once

#include "base/files.hpp"
#include "fuzz/mutator.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

struct Target {
  std::string name;                       // "tokenizer.json"
  std::vector<std::string> seeds;         // valid inputs: accepted as they are
  std::vector<std::string> refused = {};  // the smallest inputs that once did worse than being refused
  std::vector<std::string> words = {};    // that mean something to the reader
  std::vector<std::string> names = {};    // an error names the file: its text holds one of these; empty: not asked
  double share = 1;                       // of the inputs asked for: slow readers get fewer
  std::function<std::string(std::string, Dice&)> seal =
      {};  // makes hashes fit the mutated input again, mostly: what lies behind them
  std::function<std::string(Dice&)> made = {};  // instead of a mutated seed, for half of the inputs
  /// Reads the input as the programs do. Returns if it is accepted; throws Error if it is refused. What else it throws
  /// is a finding.
  std::function<void(const std::string& input)> read;
};

/// Throws what is no Error: a finding.
void require(bool holds, const std::string& what);

/// The first seed with one member changed, and sealed: it must be refused.
void refuse(Target& target, const std::string& pointer, const Json& value);

// Each keeps its files in `folder`, an empty one of its own.
std::vector<Target> chat_targets(const Path& folder);
std::vector<Target> checkpoint_targets(const Path& folder);
std::vector<Target> config_targets(const Path& folder);
std::vector<Target> corpus_targets(const Path& folder);
std::vector<Target> exchange_targets(const Path& folder);
std::vector<Target> remote_targets(const Path& folder);
std::vector<Target> run_targets(const Path& folder);
std::vector<Target> store_targets(const Path& folder);
std::vector<Target> token_file_targets(const Path& folder);

/// Writes without synchronising: inputs need not survive.
void put_file(const Path& path, std::string_view content);

/// HDF5 files that other programs might have made, with something at each of `names`: other types, shapes, storage,
/// links. `scratch`: a file.
std::function<std::string(Dice&)> strange_hdf5(const Path& scratch, std::vector<std::string> names);

/// The HDF5 file `sound` with faults in what it says of its datasets, and checksums that fit: what lies behind them.
std::function<std::string(Dice&)> damaged_headers(std::string sound);

/// The HDF5 file `sound` with something strange at one of `names` and all else as it was. `scratch`: a file.
std::function<std::string(Dice&)> strange_object(const Path& scratch, std::string sound,
                                                 std::vector<std::string> names);

/// One of the two, at equal odds.
std::function<std::string(Dice&)> either(std::function<std::string(Dice&)> one,
                                         std::function<std::string(Dice&)> other);

}  // namespace lockstep::test
