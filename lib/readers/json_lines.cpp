#include "readers/json_lines.hpp"

#include "readers/json_records.hpp"

#include <utility>

namespace lockstep {

struct JsonLines::State {
  std::string field;
  JsonRecords records;
};

JsonLines::JsonLines(std::string field) : state_(std::make_unique<State>()) { state_->field = std::move(field); }
JsonLines::~JsonLines() = default;

void JsonLines::for_each(TextBlock& block, const std::function<void(std::string_view)>& document,
                         const std::function<void(const BadText&)>& malformed) {
  state_->records.for_each(
      block,
      [&](const simdjson::dom::object& object) { document(text_of_field(object, state_->field, "data.text_field")); },
      malformed);
}

}  // namespace lockstep
