// Documents of JSON lines: one field of each line's object.
#pragma once

#include "corpus/bad_text.hpp"
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
  /// returns. For a line that is not a JSON object, lacks the field, or has another type than text there, or for which
  /// `document` throws Error(input): calls `malformed`, which throws it unless the line is to be skipped. The block is
  /// only longer during the call: lines are parsed where they are.
  void for_each(TextBlock& block, const std::function<void(std::string_view text)>& document,
                const std::function<void(const BadText& problem)>& malformed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
