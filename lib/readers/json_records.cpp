#include "readers/json_records.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_member.hpp"
#include "base/text.hpp"
#include "readers/foreign_content.hpp"
#include "readers/record_lines.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// What to do with files that are often taken for JSON lines.
std::string advice_for(std::string_view line) {
  const std::string_view text = trim(line);
  if (text.starts_with('[') || text == "{")
    return "rename the file to .json if it has an array, or records of several lines";
  if (!text.starts_with('{') && text.find('\t') != std::string_view::npos)
    return "rename the file to .tsv if tabs separate its columns";
  return "use data.malformed: skip to skip such lines";
}

constexpr const char* skip_hint = "use data.malformed: skip to skip such records";
constexpr std::size_t most_kept = 4 * BlockReader::block_bytes;  // of a parser's buffer

static_assert(TextBlock::room_behind >= simdjson::SIMDJSON_PADDING);

[[noreturn]] void refuse_line(std::string_view line, std::uint64_t offset, simdjson::error_code error) {
  if (const auto foreign = offset == 0 ? foreign_content(line) : std::nullopt)
    throw BadRecord{fmt::format("not valid JSON: it is {}", foreign->what), foreign->advice};
  throw BadRecord{error == simdjson::UTF8_ERROR ? "not valid UTF-8"
                                                : fmt::format("not valid JSON ({})", simdjson::error_message(error)),
                  advice_for(line)};
}

/// Room behind a text that simdjson reads, while this lives.
class PaddingBehind {
 public:
  explicit PaddingBehind(std::string& text) : text_(text), size_(text.size()) {
    text_.append(simdjson::SIMDJSON_PADDING, ' ');
  }
  PaddingBehind(const PaddingBehind&) = delete;
  PaddingBehind& operator=(const PaddingBehind&) = delete;
  ~PaddingBehind() { text_.resize(size_); }
  std::string_view text() const { return std::string_view(text_).substr(0, size_); }

 private:
  std::string& text_;
  std::size_t size_;
};

// An infinite double for 1e400, as in Python.
Json json_of_odd_number(std::string_view number) {
  if (is_odd_integer(number))
    throw BadRecord{fmt::format("the integer {} has more than 64 bits", number.substr(0, 40)), skip_hint};
  if (number == "NaN") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return number.starts_with('-') ? -infinity : infinity;
}

/// RecordHint is the advice for records that have some fields.
struct RecordHint {
  std::array<std::string_view, 2> fields;  // the second may be empty
  std::string_view own;                    // options of records of this form, for which it is no advice
  std::string_view advice;
};

constexpr std::array<RecordHint, 9> record_hints{{
    {{"chosen", "rejected"}, "", "these are preferences between answers: preference training (DPO) is not supported"},
    {{"messages", ""}, "data.messages_field", "--data.records messages"},
    {{"conversations", ""}, "data.messages_field", "--data.records messages"},
    {{"instruction", "output"}, "data.instruction_field data.output_field", "--data.records instruction"},
    {{"instruction", "response"}, "", "--data.records instruction --data.output_field response"},
    {{"prompt", "completion"}, "data.prompt_field data.completion_field", "--data.records prompt"},
    {{"prompt", "response"}, "", "--data.records prompt --data.completion_field response"},
    {{"question", "answer"}, "", "--data.records prompt --data.prompt_field question --data.completion_field answer"},
    {{"input_ids", ""}, "", "--data.records tokenized"},
}};

/// A misspelled field first, then the form of the record.
std::string hint_for(const std::vector<std::string>& keys, const std::string& field, const std::string& option) {
  const auto has = [&](std::string_view name) { return name.empty() || std::ranges::find(keys, name) != keys.end(); };
  const auto near = option.empty() ? std::nullopt : nearest(field, keys);
  if (near) return fmt::format("--{} {}", option, *near);
  for (const RecordHint& hint : record_hints)
    if (std::ranges::all_of(hint.fields, has) && (option.empty() || hint.own.find(option) == hint.own.npos))
      return std::string(hint.advice);
  return option.empty() ? "" : fmt::format("--{} NAME", option);
}

}  // namespace

void refuse_field(const simdjson::dom::object& object, const std::string& field, const std::string& option) {
  std::vector<std::string> keys;
  for (const auto& member : object) keys.emplace_back(member.key);
  const std::string has = keys.empty() ? "it has none" : fmt::format("it has {}", join(keys, ", ").substr(0, 200));
  throw BadRecord{fmt::format("no field '{}'; {}", field, has), hint_for(keys, field, option)};
}

void refuse_null(const std::string& field) { throw BadRecord{fmt::format("the field '{}' is null", field), skip_hint}; }

std::string_view text_of_field(const simdjson::dom::object& object, const std::string& field,
                               const std::string& option) {
  const auto member = member_of(object, field);
  if (!member) refuse_field(object, field, option);
  if (member->is_null()) refuse_null(field);
  std::string_view text;
  if (member->get(text) != simdjson::SUCCESS) throw BadRecord{fmt::format("the field '{}' is not text", field)};
  return text;
}

Json json_of(const simdjson::dom::element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY: {
      Json array = Json::array();
      const simdjson::dom::array items = value.get_array().value_unsafe();
      for (const simdjson::dom::element item : items) array.push_back(json_of(item));
      return array;
    }
    case simdjson::dom::element_type::OBJECT: {
      if (const auto number = unrepresentable_number(value)) return json_of_odd_number(*number);
      Json object = Json::object();
      const simdjson::dom::object members = value.get_object().value_unsafe();
      for (const auto& member : members) object[std::string(member.key)] = json_of(member.value);
      return object;
    }
    case simdjson::dom::element_type::INT64: return value.get_int64().value_unsafe();
    case simdjson::dom::element_type::UINT64: return value.get_uint64().value_unsafe();
    case simdjson::dom::element_type::DOUBLE: return value.get_double().value_unsafe();
    case simdjson::dom::element_type::STRING: return std::string(value.get_string().value_unsafe());
    case simdjson::dom::element_type::BOOL: return value.get_bool().value_unsafe();
    case simdjson::dom::element_type::NULL_VALUE: break;
  }
  return nullptr;
}

std::string text_of(const simdjson::dom::element& value) {
  const auto number = unrepresentable_number(value);
  return number ? std::string(*number) : std::string(simdjson::minify(value));
}

simdjson::dom::object JsonRecords::object_of(std::string_view line, std::uint64_t offset) {
  if (line.front() == problem_mark) throw BadRecord{std::string(line.substr(1)), skip_hint};
  simdjson::dom::element value;
  if (const auto error = parser_.parse(line, PythonJsonParser::Padding::present, value))
    refuse_line(line, offset, error);
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) throw BadRecord{"not a JSON object", advice_for(line)};
  return object;
}

void JsonRecords::for_each(TextBlock& block, const std::function<void(const simdjson::dom::object&)>& record,
                           const std::function<void(const BadText&)>& malformed) {
  const PaddingBehind padding(block.text);
  const std::string_view text = padding.text();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!trim(line).empty()) {
      try {
        record(object_of(line, block.offset + begin));
      } catch (const BadRecord& problem) {
        malformed({block.file, block.offset + begin, problem.reason, problem.hint});
      } catch (const Error& problem) {  // a character that the vocabulary lacks
        if (problem.code() != ExitCode::input) throw;
        malformed({block.file, block.offset + begin, problem.what(), problem.hint()});
      }
    }
    begin = end + 1;
  }
  parser_.shrink(most_kept);  // a huge line is rare
}

}  // namespace lockstep
