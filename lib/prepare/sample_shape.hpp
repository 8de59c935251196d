// The shape of samples made from records: added tokens at their begin and end, their length, and the handling of
// samples that are too long, too short, or have no label that counts. Tokens of a record: prepare/record_reader.hpp.
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

/// Sample is a tokenized record.
struct Sample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> mask;  // for each id, 1: it counts as a label
  bool end_counts = false;         // whether an added end-of-text token counts as a label
  // a template has added its end; an end-of-text token is added only if data.add_eos is set
  bool ends_itself = false;
  std::uint64_t text_bytes = 0;  // UTF-8 bytes that were encoded
  // borders at which its text was encoded in parts (tokenizer/marked_text.hpp)
  std::int64_t apart = 0;
};

/// RecordCounts counts records by their outcome, and the samples made from them.
struct RecordCounts {
  std::int64_t records = 0;            // usable records: the sum of the next four counts
  std::int64_t kept_records = 0;       // made into samples
  std::int64_t too_long_records = 0;   // dropped
  std::int64_t too_short_records = 0;  // dropped
  std::int64_t untrained_records = 0;  // dropped: without a token that counts as a label
  std::int64_t truncated_records = 0;  // kept records that were truncated
  std::int64_t split_records = 0;      // kept records that were split into parts
  std::int64_t untrained_parts = 0;    // parts of kept records that were left out, without such a token
  std::int64_t samples = 0;
  std::int64_t tokens = 0;          // in the samples
  std::int64_t trained_tokens = 0;  // tokens in the samples that count as labels
  std::int64_t apart = 0;           // sum of Sample::apart

  void add(const RecordCounts& more);
};

Json json_of(const RecordCounts& counts);
/// Returns "12 records: 10 samples of 300 tokens, …; 2 too long, left out; …". Pure.
std::string text_of(const RecordCounts& counts);

class SampleShape {
 public:
  /// `bos`, `eos`: tokens to add; not set: none.
  SampleShape(const RecordOptions& options, std::optional<std::int32_t> bos, std::optional<std::int32_t> eos);

  using Take = std::function<void(std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask)>;
  /// Calls `take` with each resulting sample: none, the sample itself, or its parts. The first token of each is not a
  /// label, because no token precedes it.
  void apply(Sample&& sample, const Take& take, RecordCounts& counts) const;

 private:
  std::optional<std::int32_t> bos_, eos_;
  bool wants_eos_;  // data.add_eos is set
  std::optional<std::int64_t> max_length_;
  std::int64_t min_length_, overlap_;
  TooLong too_long_;
};

}  // namespace lockstep
