// A template as tokens: text between tags, with what trimming takes away, and the words of tags.
#pragma once

#include "chat/template_memory.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

/// What a template has wrong, or has and is not understood, and its line.
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
  std::string_view source;  // of names and signs: what they are; of data: what is put out
  std::string text = {};    // of text: without its quotes and escapes
  std::int64_t integer = 0;
  double number = 0;
};

/// The source as lines that end with \n, without the end of the last one.
std::string with_plain_lines(std::string_view source);

/// Tokens of a source with plain lines, which they refer to. Blocks are trimmed on both sides, as chat templates are
/// read (trim_blocks, lstrip_blocks). Throws TemplateSyntaxFault.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace lockstep::jinja
