// Inputs that are almost right: a valid one with a few of the faults that files have. Each is a function of (seed,
// target, number) alone, so that a failure is repeated by its number.
#pragma once

#include "base/json.hpp"
#include "base/random.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// Random choices, one after the other.
class Dice {
 public:
  Dice(std::uint64_t seed, std::string_view target, std::uint64_t number);
  std::uint64_t bits() { return stream_.bits(next_++); }
  /// In [0, bound); 0 for an empty range.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : stream_.below(next_++, bound); }
  bool one_in(std::size_t cases) { return below(cases) == 0; }
  template <class List>
  auto& pick(List& list) {
    return list[below(list.size())];
  }
  /// Mostly small, sometimes up to `most`.
  std::size_t length(std::size_t most) { return below(one_in(4) ? most + 1 : std::min<std::size_t>(most + 1, 9)); }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// A fault that keeps the length: a bit, a byte or an integer is another.
void overwrite(std::string& text, Dice& dice);

class Mutator {
 public:
  /// `seeds` are valid inputs; `words` mean something to the reader and are put in anywhere.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words);
  /// A seed with faults: in its bytes, or, where it is JSON, in its tree.
  std::string mutated(Dice& dice) const;

 private:
  struct Seed {
    std::string text;
    std::optional<Json> tree;
  };
  std::string with_faulty_bytes(std::string text, Dice& dice) const;
  std::string with_faulty_tree(Json tree, Dice& dice) const;

  std::vector<Seed> seeds_;
  std::vector<std::string> words_;
};

}  // namespace lockstep::test
