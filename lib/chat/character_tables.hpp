// What methods of Python's strings say of each code point: tables that scripts/character-tables makes. Who reads them:
// chat/template_text.hpp.
#pragma once

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
  passed_over = 1024  // beside cased letters, where the end of a word is looked for
};

/// Traits of all code points from `first` up to the next run.
struct CharacterRun {
  char32_t first;
  std::uint16_t traits;
};

/// Each `stride`th code point from `first` to `last` becomes the one `distance` away.
struct CaseRun {
  char32_t first;
  char32_t last;
  char32_t stride;
  std::int32_t distance;
};

/// A code point that becomes two or three; 0: no third.
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
