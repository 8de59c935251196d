// Option values with a unit: durations and sizes. A value type has three functions. form() describes the text, for help
// and messages. parse(text) throws Error(usage) with the reason. text() returns a text that parse() reads back to an
// equal value.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Seconds is a duration: "90", "90s", "15m", "1h30m".
struct Seconds {
  double value = 0;
  static std::string form();
  static Seconds parse(const std::string& text);
  std::string text() const;
  auto operator<=>(const Seconds&) const = default;
};

/// ByteSize is a size of memory or files: "512", "64MiB", "5GB".
struct ByteSize {
  std::uint64_t bytes = 0;
  static std::string form();
  static ByteSize parse(const std::string& text);
  std::string text() const;
  auto operator<=>(const ByteSize&) const = default;
};

/// ByteBudget is a size of memory, or a part of the memory that would be needed: "5GB", "40%".
struct ByteBudget {
  ByteSize size;                // if share is not set
  std::optional<double> share;  // from 0 to 1
  static std::string form();
  static ByteBudget parse(const std::string& text);
  std::string text() const;
  bool operator==(const ByteBudget&) const = default;
};

}  // namespace lockstep
