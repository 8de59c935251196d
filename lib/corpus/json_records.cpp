#include "corpus/json_records.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "corpus/record_lines.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// What to do with files that are often taken for JSON lines.
std::string advice_for(std::string_view line) {
  const std::string_view text = trim(line);
  if (text.starts_with('[') || text == "{")
    return "an array, or records of several lines, are read from a file whose name ends in .json";
  if (!text.starts_with('{') && text.find('\t') != std::string_view::npos)
    return "columns that tabs separate are read from a file whose name ends in .tsv";
  return "data.malformed: skip leaves such lines out";
}

constexpr std::size_t most_kept = 4 * BlockReader::block_bytes;  // of a parser's buffer

static_assert(TextBlock::room_behind >= simdjson::SIMDJSON_PADDING);

/// Room behind a text that simdjson reads, while this lives.
class Padding {
 public:
  explicit Padding(std::string& text) : text_(text), size_(text.size()) {
    text_.append(simdjson::SIMDJSON_PADDING, ' ');
  }
  Padding(const Padding&) = delete;
  Padding& operator=(const Padding&) = delete;
  ~Padding() { text_.resize(size_); }
  std::string_view text() const { return std::string_view(text_).substr(0, size_); }

 private:
  std::string& text_;
  std::size_t size_;
};

}  // namespace

void refuse_field(const simdjson::dom::object& object, const std::string& field, const std::string& option) {
  std::vector<std::string> keys;
  for (const auto& member : object) keys.emplace_back(member.key);
  const auto near = nearest(field, keys);
  const std::string has = keys.empty() ? "it has none" : fmt::format("it has {}", join(keys, ", ").substr(0, 200));
  throw BadRecord{fmt::format("no field '{}'; {}", field, has), fmt::format("--{} {}", option, near.value_or("NAME"))};
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

simdjson::dom::object JsonRecords::object_of(std::string_view line) {
  if (line.front() == problem_mark)
    throw BadRecord{std::string(line.substr(1)), "data.malformed: skip leaves such records out"};
  simdjson::dom::element value;
  if (const auto error = parser_.parse(line.data(), line.size(), false).get(value))
    throw BadRecord{error == simdjson::UTF8_ERROR ? "not valid UTF-8"
                                                  : fmt::format("not valid JSON ({})", simdjson::error_message(error)),
                    advice_for(line)};
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) throw BadRecord{"not a JSON object", advice_for(line)};
  return object;
}

void JsonRecords::for_each(TextBlock& block, const std::function<void(const simdjson::dom::object&)>& record,
                           const std::function<void(const BadText&)>& malformed) {
  const Padding padding(block.text);
  const std::string_view text = padding.text();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!trim(line).empty()) {
      try {
        record(object_of(line));
      } catch (const BadRecord& problem) {
        malformed({block.file, block.offset + begin, problem.reason, problem.hint});
      } catch (const Error& problem) {  // a character that the vocabulary lacks
        if (problem.code() != ExitCode::input) throw;
        malformed({block.file, block.offset + begin, problem.what(), problem.hint()});
      }
    }
    begin = end + 1;
  }
  if (parser_.capacity() > most_kept) parser_ = simdjson::dom::parser();  // a huge line is rare
}

}  // namespace lockstep
