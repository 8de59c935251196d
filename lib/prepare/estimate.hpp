// Estimates the output, time and disk space of a preparation from a sample of its input, for prepare-data --dry-run.
#pragma once

#include "base/json_fwd.hpp"
#include "config/prepare_config.hpp"
#include "readers/input_files.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PreparationEstimate {
  std::uint64_t input_bytes = 0;   // on disk
  std::uint64_t sample_bytes = 0;  // bytes of the input in the sample
  std::uint64_t sample_text_bytes = 0;
  bool is_whole = false;  // whether the sample is the whole input
  double text_bytes = 0;
  double documents = 0;
  double tokens = 0;
  // tokens that count as labels; set for samples made from records
  std::optional<double> trained_tokens;
  double bytes_per_token = 0;
  double shards = 0;
  double seconds = 0;           // on all ranks and threads
  double dataset_bytes = 0;     // on disk
  double scratch_bytes = 0;     // temporary files while the dataset is made
  std::int64_t vocabulary = 0;  // of the tokenizer; for chars: the characters of the sample
};

/// Reads up to 64 places of the input, spread evenly, and tokenizes the text there. Local. Throws Error(input) as the
/// preparation would if one of these places shows the problem, or if the tokenizer cannot be loaded.
PreparationEstimate estimate_preparation(const std::vector<InputFile>& files, const PrepareDataOptions& options,
                                         int ranks, int threads, const std::function<void()>& alive);

Json json_of(const PreparationEstimate& estimate);
/// Returns lines for people. `free_bytes` is the free space of the file system of the output.
std::string text_of(const PreparationEstimate& estimate, std::uint64_t free_bytes);

}  // namespace lockstep
