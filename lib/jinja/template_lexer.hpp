// Splits a template into tokens: the text between tags, after trimming, and the words within tags.
#pragma once

#include "jinja/template_memory.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

/// An error or an unsupported part in a template, and its line.
class TemplateSyntaxFault : public TemplateFault {
 public:
  TemplateSyntaxFault(int line, const std::string& message) : TemplateFault(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

enum class TemplateTokenKind : std::uint8_t {
  data,
  output_begin,
  output_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  number,
  sign,
  end
};

struct Token {
  TemplateTokenKind kind = TemplateTokenKind::end;
  int line = 1;
  std::string_view source;  // name or sign: its characters; data: the text to output
  std::string text = {};    // text: without its quotes and escapes
  std::int64_t integer = 0;
  double number = 0;
};

/// The source with lines that end with \n; a \n at the end of the last line is removed.
std::string with_plain_lines(std::string_view source);

/// Splits a source, as returned by with_plain_lines; the tokens refer to it. White space around blocks is trimmed as in
/// chat templates (trim_blocks, lstrip_blocks). Throws TemplateSyntaxFault.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace lockstep::jinja
