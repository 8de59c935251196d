// What preparation says at its end, or of a dataset that it need not make again.
#pragma once

#include "base/json_fwd.hpp"
#include "data/sample_shape.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct PreparationSummary {
  std::string output;
  const DatasetManifest& manifest;
  bool up_to_date = false;              // it was there already; what follows is then of looking at it
  std::int64_t duplicates = 0;          // documents that were left out
  std::optional<RecordCounts> records;  // where records do not hold text
  std::uint64_t input_bytes = 0;
  std::uint64_t input_bytes_read = 0;  // by all ranks
  double seconds = 0;
};

Json json_of(const PreparationSummary& summary);
std::string text_of(const PreparationSummary& summary);

}  // namespace lockstep
