#include "readers/json_lines.hpp"

#include "base/error.hpp"
#include "base/json_member.hpp"
#include "readers/json_records.hpp"

#include <utility>

namespace lockstep {

struct JsonLines::State {
  std::string field;
  JsonRecords records;

  std::string_view text_of(const simdjson::dom::object& object) const {
    const auto member = member_of(object, field);
    if (!member) refuse_field(object, field, "data.text_field");
    if (member->is_null()) refuse_null(field);
    std::string_view text;
    if (member->get(text) != simdjson::SUCCESS) throw BadRecord{fmt::format("the field '{}' is not text", field)};
    return text;
  }
};

JsonLines::JsonLines(std::string field) : state_(std::make_unique<State>()) { state_->field = std::move(field); }
JsonLines::~JsonLines() = default;

void JsonLines::for_each(TextBlock& block, const std::function<void(std::string_view)>& document,
                         const std::function<void(const BadText&)>& malformed) {
  state_->records.for_each(
      block, [&](const simdjson::dom::object& object) { document(state_->text_of(object)); }, malformed);
}

}  // namespace lockstep
