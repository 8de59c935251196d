#include "corpus/json_lines.hpp"

#include "base/text.hpp"
#include "corpus/record_lines.hpp"

#include <simdjson.h>

#include <optional>

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

struct JsonLines::State {
  std::string field;
  simdjson::dom::parser parser;

  /// A line of a block: what it is, and where its file has it.
  struct Line {
    const InputFile& file;
    std::uint64_t offset;
    std::string_view text;
  };

  [[noreturn]] static void refuse(const Line& line, std::string reason, std::string hint = {}) {
    throw BadText{&line.file, line.offset, std::move(reason), std::move(hint)};
  }

  [[noreturn]] void refuse_field(const Line& line, const simdjson::dom::object& object) const {
    std::vector<std::string> keys;
    for (const auto& member : object) keys.emplace_back(member.key);
    const auto near = nearest(field, keys);
    const std::string has = keys.empty() ? "it has none" : fmt::format("it has {}", join(keys, ", ").substr(0, 200));
    refuse(line, fmt::format("no field '{}'; {}", field, has), "--data.text_field " + near.value_or("NAME"));
  }

  std::string_view text_of(const Line& line) {
    if (line.text.front() == problem_mark)
      refuse(line, std::string(line.text.substr(1)), "data.malformed: skip leaves such records out");
    simdjson::dom::element value;
    if (const auto error = parser.parse(line.text.data(), line.text.size(), false).get(value)) {
      refuse(line,
             error == simdjson::UTF8_ERROR ? "not valid UTF-8"
                                           : fmt::format("not valid JSON ({})", simdjson::error_message(error)),
             advice_for(line.text));
    }
    simdjson::dom::object object;
    if (value.get(object) != simdjson::SUCCESS) refuse(line, "not a JSON object", advice_for(line.text));
    simdjson::dom::element member;
    if (object.at_key(field).get(member) != simdjson::SUCCESS) refuse_field(line, object);
    std::string_view text;
    if (member.get(text) != simdjson::SUCCESS) refuse(line, fmt::format("the field '{}' is not text", field));
    return text;
  }
};

JsonLines::JsonLines(std::string field) : state_(std::make_unique<State>()) { state_->field = std::move(field); }
JsonLines::~JsonLines() = default;

void JsonLines::for_each(TextBlock& block, const std::function<void(std::string_view)>& document,
                         const std::function<void(const BadText&)>& malformed) {
  const Padding padding(block.text);
  const std::string_view text = padding.text();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view body = text.substr(begin, end - begin);
    if (!trim(body).empty()) {
      std::optional<std::string_view> field;
      try {
        field = state_->text_of({*block.file, block.offset + begin, body});
      } catch (const BadText& problem) {
        malformed(problem);
      }
      if (field) document(*field);
    }
    begin = end + 1;
  }
  if (state_->parser.capacity() > most_kept) state_->parser = simdjson::dom::parser();  // a huge line is rare
}

}  // namespace lockstep
