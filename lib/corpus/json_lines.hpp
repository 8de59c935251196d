// Documents of JSON lines: one field of each line's object.
#pragma once

#include "corpus/block_reader.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Reads blocks on one thread; keeps its parser.
class JsonLines {
 public:
  explicit JsonLines(std::string field);
  ~JsonLines();
  /// Calls `document` with the field of every line that is not blank; the text is valid UTF-8 and lives until the call
  /// returns. Throws Error(input) "FILE:LINE: …" for a line that is not a JSON object, lacks the field, or has another
  /// type than text there.
  void for_each(const TextBlock& block, const std::function<void(std::string_view text)>& document);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
