// Tables of properties of code points, as the tokenizers library knows them. scripts/unicode-tables makes them;
// unicode/unicode.hpp reads them.
#pragma once

#include "unicode/case_runs.hpp"

#include <cstdint>
#include <span>

namespace lockstep {

/// The value of all code points from `first` up to the next run.
struct UnicodeRun {
  char32_t first;
  std::uint16_t value;
};

/// `first` followed by `second` composes to `whole`.
struct CompositionPair {
  char32_t first;
  char32_t second;
  char32_t whole;
};

std::span<const UnicodeRun> property_runs();   // category and flags of unicode/unicode.hpp
std::span<const UnicodeRun> combining_runs();  // canonical combining class

// Entries follow each other: a code point, a count, and as many code points of its decomposition.
std::span<const char32_t> canonical_decompositions();
std::span<const char32_t> compatible_decompositions();  // where they differ from the canonical ones

std::span<const CompositionPair> composition_pairs();
std::span<const CaseRun> lower_runs();

}  // namespace lockstep
