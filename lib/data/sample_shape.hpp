// The shape of samples that are made of records: which token they begin and end with, how long they are, and what
// becomes of those that are too long, too short, or hold nothing to train on. How a record becomes tokens:
// data/record_reader.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "config/record_options.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// What a record becomes.
struct Sample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> mask;  // of each, 1 where it counts as a label
  bool end_counts = false;         // an end-of-text token that is added
  bool ends_itself = false;        // a template has ended it: a token is added only where data.add_eos says so
  std::uint64_t text_bytes = 0;    // UTF-8 bytes that were encoded
  std::int64_t apart = 0;          // borders at which its text was encoded in parts (corpus/marked_text.hpp)
};

/// What became of records.
struct RecordCounts {
  std::int64_t records = 0;            // that could be used; they are
  std::int64_t kept_records = 0;       // samples now, or
  std::int64_t too_long_records = 0;   // dropped, as are
  std::int64_t too_short_records = 0;  // and
  std::int64_t untrained_records = 0;  // those without a token that counts
  std::int64_t truncated_records = 0;  // of those that are kept, as
  std::int64_t split_records = 0;      // into parts, of which
  std::int64_t untrained_parts = 0;    // had no token that counts, and were left out
  std::int64_t samples = 0;
  std::int64_t tokens = 0;          // of samples
  std::int64_t trained_tokens = 0;  // of them, that count as labels
  std::int64_t apart = 0;           // Sample::apart, of records

  void add(const RecordCounts& more);
};

Json json_of(const RecordCounts& counts);
/// "12 records: 10 samples of 300 tokens, 120 of them count as labels; 2 too long; …". Pure.
std::string text_of(const RecordCounts& counts);

class SampleShape {
 public:
  /// `bos`, `eos`: to be added; absent: none.
  SampleShape(const RecordOptions& options, std::optional<std::int32_t> bos, std::optional<std::int32_t> eos);

  using Take = std::function<void(std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask)>;
  /// Calls `take` with what the sample of one record becomes: nothing, itself, or its parts. The first token of each is
  /// no label: nothing stands before it.
  void apply(Sample&& sample, const Take& take, RecordCounts& counts) const;

 private:
  std::optional<std::int32_t> bos_, eos_;
  bool wants_eos_;  // data.add_eos is set
  std::optional<std::int64_t> max_length_;
  std::int64_t min_length_, overlap_;
  TooLong too_long_;
};

}  // namespace lockstep
