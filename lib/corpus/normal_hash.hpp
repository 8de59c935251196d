// A hash of a text that does not see how its white space is written: by it documents are known as duplicates. It is put
// together from parts of the text, wherever that is cut. Of content as it is: base/content_sum.hpp.
#pragma once

#include "base/hash.hpp"

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The normal form of a text: each run of Unicode's White_Space is one space, none at the ends; `caseless`: letters are
/// lower-case as well.
class NormalHash {
 public:
  /// Of nothing.
  NormalHash() = default;
  /// Of valid UTF-8.
  NormalHash(std::string_view text, bool caseless);
  /// The text goes on with `more`.
  void add(const NormalHash& more);
  /// Equal for texts of equal normal form, and of others with the chance of two random numbers of 122 bits.
  Hash128 digest() const;

 private:
  void append(const NormalHash& more);

  // The bytes of the normal form are coefficients of a polynomial, taken at two points modulo 2^61 - 1.
  std::uint64_t first_ = 0;
  std::uint64_t second_ = 0;
  std::uint64_t bytes_ = 0;
  bool begins_with_space_ = false;  // so does the text, before its normal form
  bool ends_with_space_ = false;
};

}  // namespace lockstep
