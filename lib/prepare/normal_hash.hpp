// A hash of a text that ignores how its white space is written, for finding duplicate documents. It can be combined
// from hashes of parts, wherever the text is cut. Hashes of unchanged bytes: base/content_sum.hpp.
#pragma once

#include "base/hash.hpp"

#include <cstdint>
#include <string_view>

namespace lockstep {

/// Hashes the normal form of a text: each run of Unicode's White_Space is one space, with none at the ends. With
/// `caseless`, letters are lower-case as well.
class NormalHash {
 public:
  /// The hash of the empty text.
  NormalHash() = default;
  /// The hash of `text`, which is valid UTF-8.
  NormalHash(std::string_view text, bool caseless);
  /// Appends the text of `more`.
  void add(const NormalHash& more);
  /// Equal for texts of equal normal form. Other texts have equal digests as rarely as two random numbers of 122 bits.
  Hash128 digest() const;

 private:
  void append(const NormalHash& more);

  // The bytes of the normal form are coefficients of a polynomial, evaluated at two points modulo 2^61 - 1.
  std::uint64_t first_ = 0;
  std::uint64_t second_ = 0;
  std::uint64_t bytes_ = 0;
  bool begins_with_space_ = false;  // the text does, before its normal form
  bool ends_with_space_ = false;
};

}  // namespace lockstep
