// Samples without files, generated as they are read, for measurements of speed. Real samples: data/sample_source.hpp.
#pragma once

#include "data/sample_source.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

struct DummySettings {
  std::int64_t samples = 0;
  std::int64_t row_length = 0;             // T, tokens
  std::int64_t tokens = 0;                 // in a sample, at most row_length; the rest of a row is padding
  std::int64_t vocabulary = 0;             // token ids are below it
  std::optional<std::uint64_t> seed = {};  // of random tokens; not set: all tokens are 0
};

/// A sample has the same tokens at each read, on any rank. Local; from any thread.
class DummySource : public SampleSource {
 public:
  explicit DummySource(const DummySettings& settings) : settings_(settings) {}
  std::vector<const TokenStream*> streams() const override { return {}; }
  std::int64_t samples() const override { return settings_.samples; }
  std::int64_t length() const override { return settings_.row_length; }
  std::int64_t cost(std::int64_t) const override { return settings_.tokens; }
  std::int64_t most_segments() const override { return 1; }
  void fill(std::int64_t sample, SampleRow& row) const override;
  void declare_use(std::int64_t, ShardVerifier&) const override {}

 private:
  DummySettings settings_;
};

}  // namespace lockstep
