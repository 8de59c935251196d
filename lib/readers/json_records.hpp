// The records of a block of JSON lines, as objects of simdjson. Records that are documents of text:
// readers/json_lines.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "readers/bad_text.hpp"
#include "readers/block_reader.hpp"
#include "readers/python_json.hpp"

#include <simdjson.h>

#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// Why a record cannot be used; the reader of a record throws it.
struct BadRecord {
  std::string reason;
  std::string hint = {};
};

/// Reads blocks on one thread; reuses its parser.
class JsonRecords {
 public:
  /// Calls `record` with the object of every line that is not blank. Its text is valid UTF-8 and valid until the call
  /// returns. Calls `malformed` if a line is not a JSON object, or if `record` throws BadRecord or Error(input).
  /// `malformed` throws the problem with its place, unless the line is to be skipped. Lines are parsed in place, so the
  /// block is longer during the call.
  void for_each(TextBlock& block, const std::function<void(const simdjson::dom::object& object)>& record,
                const std::function<void(const BadText& problem)>& malformed);

 private:
  simdjson::dom::object object_of(std::string_view line, std::uint64_t offset);
  PythonJsonParser parser_;
};

/// Throws BadRecord: the object has no such field. The hint names the option with the nearest field, or the records
/// that have the fields of the object. `option` names the field; empty: none does.
[[noreturn]] void refuse_field(const simdjson::dom::object& object, const std::string& field,
                               const std::string& option);

/// Throws BadRecord: the field is null. The hint says how to skip such records.
[[noreturn]] void refuse_null(const std::string& field);

/// Returns the text of a field. Throws BadRecord if it is missing, as refuse_field does for `option`, null or no text.
std::string_view text_of_field(const simdjson::dom::object& object, const std::string& field,
                               const std::string& option);

/// The value as Json. If an object has a key twice, the last one counts. Throws BadRecord for an integer beyond 64
/// bits.
Json json_of(const simdjson::dom::element& value);

/// The value as JSON without white space, for messages.
std::string text_of(const simdjson::dom::element& value);

}  // namespace lockstep
