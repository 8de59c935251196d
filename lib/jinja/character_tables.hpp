// Tables of the properties of code points that methods of Python's strings use. scripts/character-tables makes them;
// jinja/template_text.hpp reads them.
#pragma once

#include "unicode/case_runs.hpp"

#include <cstdint>
#include <span>

namespace lockstep::jinja {

/// Bits of a CharacterRun.
enum CharacterTrait : std::uint16_t {
  printable = 1,
  alphabetic = 2,
  decimal = 4,
  digit = 8,
  numeric = 16,
  lower_case = 32,
  upper_case = 64,
  title_case = 128,
  white_space = 256,
  cased = 512,
  passed_over = 1024  // case-ignorable: skipped when looking for the end of a word
};

/// Traits of all code points from `first` up to the next run.
struct CharacterRun {
  char32_t first;
  std::uint16_t traits;
};

/// A code point that maps to two or three; parts[2] is 0 if there is no third.
struct LongCase {
  char32_t point;
  char32_t parts[3];
};

std::span<const CharacterRun> character_runs();
std::span<const CaseRun> lower_case_runs();
std::span<const CaseRun> upper_case_runs();
std::span<const CaseRun> title_case_runs();
std::span<const CaseRun> folded_case_runs();
std::span<const LongCase> long_lower_cases();
std::span<const LongCase> long_upper_cases();
std::span<const LongCase> long_title_cases();
std::span<const LongCase> long_folded_cases();

}  // namespace lockstep::jinja
