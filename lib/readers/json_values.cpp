#include "base/error.hpp"
#include "readers/line_maker.hpp"
#include "readers/record_lines.hpp"

namespace lockstep {

namespace {

constexpr bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

class JsonValues : public LineMaker {
 public:
  JsonValues(std::unique_ptr<ByteReader> bytes, std::string file) : LineMaker(std::move(bytes), std::move(file)) {}

 private:
  enum class Place { begin, before_value, in_value, in_text, behind_value, behind_all };

  void end() override {
    if (place_ == Place::in_value && depth_ == 0) end_value();
    if (place_ == Place::in_value || place_ == Place::in_text)
      fail(ExitCode::input, "{}: not valid JSON: it ends within record {}", file_, records_ + 1);
    if (in_array_ && place_ != Place::behind_all)
      fail(ExitCode::input, "{}: not valid JSON: its array is not closed after {} records", file_, records_);
  }

  std::string_view taken(std::string_view text) override {
    if (place_ == Place::in_text) return in_text(text);
    if (place_ == Place::in_value) return in_value(text);
    const char next = text.front();
    if (is_space(next)) return text.substr(1);
    switch (place_) {
      case Place::begin:
        in_array_ = next == '[';
        place_ = Place::before_value;
        return in_array_ ? text.substr(1) : text;
      case Place::before_value:
        if (in_array_ && next == ']' && records_ == 0) break;  // an empty array
        if (next == ',' || next == ']' || next == '}') refuse(next);
        place_ = Place::in_value;
        return text;
      case Place::behind_value:
        if (!in_array_) {
          place_ = Place::before_value;
          return text;
        }
        if (next == ']') break;
        if (next != ',') refuse(next);
        place_ = Place::before_value;
        return text.substr(1);
      case Place::in_value:
      case Place::in_text:
      case Place::behind_all: refuse(next);
    }
    place_ = Place::behind_all;
    return text.substr(1);
  }

  [[noreturn]] void refuse(char found) const {
    fail(ExitCode::input, "{}: not valid JSON: '{}' instead of {}, after {} records", file_, found,
         place_ == Place::behind_all     ? "the end"
         : place_ == Place::before_value ? "a value"
                                         : "a comma or ]",
         records_);
  }

  std::string_view in_text(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (escaped_) {
        escaped_ = false;
      } else if (text[i] == '\\') {
        escaped_ = true;
      } else if (text[i] == '"') {
        lines_.append(text, 0, i + 1);
        place_ = Place::in_value;
        if (depth_ == 0) end_value();
        return text.substr(i + 1);
      }
      if (text[i] == '\n')
        fail(ExitCode::input, "{}: not valid JSON: a line break within a string of record {}", file_, records_ + 1);
    }
    lines_.append(text);
    return {};
  }

  std::string_view in_value(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char byte = text[i];
      if (depth_ == 0 && i + begun_ > 0 && (is_space(byte) || byte == ',' || byte == ']')) {  // behind a number
        lines_.append(text, 0, i);
        end_value();
        return text.substr(i);
      }
      if (byte == '\n' || byte == '\r') {  // as any space between tokens
        lines_.append(text, 0, i).append(1, ' ');
        return text.substr(i + 1);
      }
      if (byte == '"') {
        lines_.append(text, 0, i + 1);
        place_ = Place::in_text;
        begun_ = 1;
        return text.substr(i + 1);
      }
      if (byte == '{' || byte == '[') ++depth_;
      if ((byte == '}' || byte == ']') && depth_ > 0 && --depth_ == 0) {
        lines_.append(text, 0, i + 1);
        end_value();
        return text.substr(i + 1);
      }
    }
    begun_ = 1;
    lines_.append(text);
    return {};
  }

  void end_value() {
    lines_ += '\n';
    ++records_;
    begun_ = 0;
    place_ = Place::behind_value;
  }

  Place place_ = Place::begin;
  bool in_array_ = false;
  bool escaped_ = false;    // the next byte of a text
  std::int64_t depth_ = 0;  // of braces and brackets in the value
  std::size_t begun_ = 0;   // 1 if some of the value was taken
  std::int64_t records_ = 0;
};

}  // namespace

std::unique_ptr<ByteReader> json_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file) {
  return std::make_unique<JsonValues>(std::move(bytes), std::move(file));
}

}  // namespace lockstep
