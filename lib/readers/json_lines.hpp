// Documents in JSON lines: one field of each line's object. Whole records: readers/json_records.hpp.
#pragma once

#include "readers/bad_text.hpp"
#include "readers/block_reader.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Reads blocks on one thread; reuses its parser.
class JsonLines {
 public:
  explicit JsonLines(std::string field);
  ~JsonLines();
  /// Calls `document` with the field of every line that is not blank. The text is valid UTF-8 and valid until the call
  /// returns. Calls `malformed` if a line is not a JSON object, lacks the field or has no text there, or if `document`
  /// throws Error(input). `malformed` throws the problem, unless the line is to be skipped. Lines are parsed in place,
  /// so the block is longer during the call.
  void for_each(TextBlock& block, const std::function<void(std::string_view text)>& document,
                const std::function<void(const BadText& problem)>& malformed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
