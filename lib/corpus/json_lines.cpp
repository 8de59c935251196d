#include "corpus/json_lines.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <simdjson.h>

#include <optional>

namespace lockstep {

namespace {

/// What to type for files that are often taken for JSON lines.
std::string conversion_of(std::string_view line, const std::string& file) {
  const std::string_view text = trim(line);
  if (text.starts_with('['))
    return fmt::format("for an array of objects, write one object a line: jq -c '.[]' {} > NEW.jsonl", file);
  if (text == "{") return fmt::format("write one object a line: jq -c . {} > NEW.jsonl", file);
  if (!text.starts_with('{') && text.find('\t') != std::string_view::npos)
    return fmt::format(
        "for text in the first of tab-separated columns: jq -Rc 'split(\"\\t\") | {{text: .[0]}}' {} > NEW.jsonl",
        file);
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

struct JsonLines::State {
  std::string field;
  simdjson::dom::parser parser;

  [[noreturn]] void refuse(const TextBlock& block, std::int64_t line, const std::string& reason,
                           std::string hint = {}) const {
    throw Error(ExitCode::input, fmt::format("{}:{}: {}", block.file->name(), line, reason), std::move(hint));
  }

  [[noreturn]] void refuse_field(const TextBlock& block, std::int64_t line, const simdjson::dom::object& object) const {
    std::vector<std::string> keys;
    for (const auto& member : object) keys.emplace_back(member.key);
    const auto near = nearest(field, keys);
    const std::string has = keys.empty() ? "it has none" : fmt::format("it has {}", join(keys, ", ").substr(0, 200));
    refuse(block, line, fmt::format("no field '{}'; {}", field, has), "--data.text_field " + near.value_or("NAME"));
  }

  std::string_view text_of(const TextBlock& block, std::int64_t line, const char* begin, std::size_t size) {
    simdjson::dom::element value;
    if (const auto error = parser.parse(begin, size, false).get(value)) {
      refuse(block, line,
             error == simdjson::UTF8_ERROR ? "not valid UTF-8"
                                           : fmt::format("not valid JSON ({})", simdjson::error_message(error)),
             conversion_of({begin, size}, block.file->name()));
    }
    simdjson::dom::object object;
    if (value.get(object) != simdjson::SUCCESS)
      refuse(block, line, "not a JSON object", conversion_of({begin, size}, block.file->name()));
    simdjson::dom::element member;
    if (object.at_key(field).get(member) != simdjson::SUCCESS) refuse_field(block, line, object);
    std::string_view text;
    if (member.get(text) != simdjson::SUCCESS) refuse(block, line, fmt::format("the field '{}' is not text", field));
    return text;
  }
};

JsonLines::JsonLines(std::string field) : state_(std::make_unique<State>()) { state_->field = std::move(field); }
JsonLines::~JsonLines() = default;

void JsonLines::for_each(TextBlock& block, const std::function<void(std::string_view)>& document,
                         const std::function<void(const Error&)>& malformed) {
  const Padding padding(block.text);
  const std::string_view text = padding.text();
  std::int64_t line = block.first_line;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view body = text.substr(begin, end - begin);
    if (!trim(body).empty()) {
      std::optional<std::string_view> field;
      try {
        field = state_->text_of(block, line, body.data(), body.size());
      } catch (const Error& problem) {
        malformed(problem);
      }
      if (field) document(*field);
    }
    begin = end + 1;
  }
  if (state_->parser.capacity() > most_kept) state_->parser = simdjson::dom::parser();  // a huge line is rare
}

}  // namespace lockstep
