// The summary that prepare-data prints at its end, or for a dataset that it reuses.
#pragma once

#include "base/json_fwd.hpp"
#include "prepare/sample_shape.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct PreparationSummary {
  std::string output;
  const DatasetManifest& manifest;
  bool up_to_date = false;              // the dataset was reused; the following values are those of the lookup
  std::int64_t duplicates = 0;          // duplicates that were left out
  std::optional<RecordCounts> records;  // if the input holds records other than text
  std::uint64_t input_bytes = 0;
  std::uint64_t input_bytes_read = 0;  // by all ranks
  double seconds = 0;
};

Json json_of(const PreparationSummary& summary);
std::string text_of(const PreparationSummary& summary);

}  // namespace lockstep
