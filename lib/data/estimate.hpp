// What a preparation will make and need, guessed from a sample of its input: for prepare-data --dry-run.
#pragma once

#include "base/json_fwd.hpp"
#include "config/prepare_config.hpp"
#include "corpus/input_files.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PreparationEstimate {
  std::uint64_t input_bytes = 0;   // on disk
  std::uint64_t sample_bytes = 0;  // of them, that were read
  std::uint64_t sample_text_bytes = 0;
  bool is_whole = false;  // the sample is all of the input
  double text_bytes = 0;
  double documents = 0;
  double tokens = 0;
  std::optional<double> trained_tokens;  // of samples made of records, that count as labels
  double bytes_per_token = 0;
  double shards = 0;
  double seconds = 0;           // on all ranks and threads
  double dataset_bytes = 0;     // on disk
  double scratch_bytes = 0;     // besides, while it is made
  std::int64_t vocabulary = 0;  // of characters, those of the sample
};

/// Reads up to 64 places of the input, spread evenly, and tokenizes what is there. Local. Throws Error(input) as the
/// preparation would, where a place shows it; what a tokenizer's files lack.
PreparationEstimate estimate_preparation(const std::vector<InputFile>& files, const PrepareDataOptions& options,
                                         int ranks, int threads, const std::function<void()>& alive);

Json json_of(const PreparationEstimate& estimate);
/// Lines for people. `free_bytes`: of the file system that the output goes to.
std::string text_of(const PreparationEstimate& estimate, std::uint64_t free_bytes);

}  // namespace lockstep
