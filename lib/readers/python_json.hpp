// A JSON parser that also accepts the numbers that Python's json module reads and writes: NaN, Infinity, -Infinity,
// integers beyond 64 bits, and numbers beyond double such as 1e400. simdjson refuses the whole text for one of them.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

class PythonJsonParser {
 public:
  /// Padding says whether SIMDJSON_PADDING readable bytes follow the text; otherwise the text is copied.
  enum class Padding { present, absent };
  /// Parses `text`. The value is valid until the next call. A number that simdjson cannot represent becomes an object
  /// that unrepresentable_number() recognises.
  simdjson::error_code parse(std::string_view text, Padding padding, simdjson::dom::element& value);
  /// Frees buffers of more than `most_bytes`.
  void shrink(std::size_t most_bytes);

 private:
  simdjson::dom::parser parser_;
  std::string rewritten_;
};

/// The text of the number that such an object stands for; nothing for other values. Pure.
std::optional<std::string_view> unrepresentable_number(const simdjson::dom::element& value);

/// Whether the text of such a number is an integer. Pure.
bool is_odd_integer(std::string_view number);

}  // namespace lockstep
