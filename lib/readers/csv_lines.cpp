#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "readers/json_string.hpp"
#include "readers/line_maker.hpp"
#include "readers/record_lines.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace lockstep {

namespace {

class CsvLines : public LineMaker {
 public:
  CsvLines(std::unique_ptr<ByteReader> bytes, std::string file, char delimiter, std::size_t longest)
      : LineMaker(std::move(bytes), std::move(file)), delimiter_(delimiter), longest_(longest) {}

 private:
  enum class State { row_begin, field_begin, plain, quoted, quote_closed };

  std::string_view taken(std::string_view text) override {
    return state_ == State::quoted ? quoted(text) : unquoted(text);
  }

  void end() override {
    if (state_ == State::quoted)
      fail(ExitCode::input, "{}: the file ends within a quoted field of record {}, which begins in line {}", file_,
           records_ + 1, opened_at_);
    if (state_ != State::row_begin) end_row();
  }

  // What is left of `text` behind a part of a quoted field.
  std::string_view quoted(std::string_view text) {
    const std::size_t end = std::min(text.find('"'), text.size());
    add(text.substr(0, end));
    if (end == text.size()) return {};
    state_ = State::quote_closed;
    return text.substr(end + 1);
  }

  std::string_view unquoted(std::string_view text) {
    const char next = text.front();
    if (skip_line_feed_ && next == '\n') {  // behind a carriage return that ended the row
      skip_line_feed_ = false;
      return text.substr(1);
    }
    skip_line_feed_ = false;
    if (next == '"' && (state_ == State::row_begin || state_ == State::field_begin)) {
      state_ = State::quoted;
      opened_at_ = line_;
      return text.substr(1);
    }
    if (next == '"' && state_ == State::quote_closed) {  // twice: stands for itself
      add(text.substr(0, 1));
      state_ = State::quoted;
      return text.substr(1);
    }
    if (next == delimiter_) {
      end_field();
      state_ = State::field_begin;
      return text.substr(1);
    }
    if (next == '\n' || next == '\r') {
      skip_line_feed_ = next == '\r';
      ++line_;
      if (state_ != State::row_begin) end_row();
      return text.substr(1);
    }
    std::size_t end = 1;
    while (end < text.size() && text[end] != delimiter_ && text[end] != '\n' && text[end] != '\r') ++end;
    add(text.substr(0, end));
    state_ = State::plain;
    return text.substr(end);
  }

  void add(std::string_view part) {
    if (state_ == State::quoted) line_ += std::count(part.begin(), part.end(), '\n');
    if (row_.size() + part.size() > longest_)
      throw Error(ExitCode::input,
                  fmt::format("{}: record {} is longer than {}", file_, records_ + 1, human_bytes(longest_)),
                  fmt::format("is a quote not closed? the last one opens in line {}", opened_at_));
    row_.append(part);
  }

  void end_field() { ends_.push_back(row_.size()); }

  std::string_view field(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(row_).substr(begin, ends_[i] - begin);
  }

  void end_row() {
    end_field();
    state_ = State::row_begin;
    if (names_.empty()) {
      take_names();
    } else {
      ++records_;
      write_row();
    }
    row_.clear();
    ends_.clear();
  }

  void take_names() {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (!seen.insert(field(i)).second)
        throw Error(ExitCode::input, fmt::format("{}: two columns have the name '{}'", file_, field(i)),
                    "its first row must name the columns");
      std::string& name = names_.emplace_back();
      append_json_string(name, field(i));
      name += ':';
    }
  }

  void write_row() {
    if (ends_.size() != names_.size()) {
      lines_ += fmt::format("{}it has {}, but the first row has {}\n", problem_mark,
                            counted(std::ssize(ends_), "field"), names_.size());
      return;
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      lines_ += i == 0 ? '{' : ',';
      lines_ += names_[i];
      append_json_string(lines_, field(i));
    }
    lines_ += "}\n";
  }

  char delimiter_;
  std::size_t longest_;
  State state_ = State::row_begin;
  bool skip_line_feed_ = false;
  std::string row_;                 // its fields, one behind the other
  std::vector<std::size_t> ends_;   // of these fields
  std::vector<std::string> names_;  // "NAME":
  std::int64_t records_ = 0;
  std::int64_t line_ = 1, opened_at_ = 1;  // of the file
};

}  // namespace

std::unique_ptr<ByteReader> csv_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file, char delimiter,
                                              std::size_t longest) {
  return std::make_unique<CsvLines>(std::move(bytes), std::move(file), delimiter, longest);
}

}  // namespace lockstep
