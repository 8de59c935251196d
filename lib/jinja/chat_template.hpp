// Renders chat templates: conversations become text by the Jinja templates of Hugging Face models, as in transformers.
// The supported part of Jinja: lockstep-chat-templates(5). Implementation: jinja/template_parser.hpp and
// jinja/template_run.hpp. Files of templates: chat/chat_template_file.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

namespace jinja {
struct SyntaxTree;
struct TemplateLimits;
}  // namespace jinja

/// A half-open range of bytes of a text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct RenderedChat {
  std::string text;
  std::vector<TextSpan> generated;  // output of {% generation %} blocks, in order
};

/// The input of a template. It must outlive the rendering, which does not change it.
struct ChatInput {
  const Json& messages;         // an array of objects
  const Json* tools = nullptr;  // an array; default of tools and documents: none
  const Json* documents = nullptr;
  bool add_generation_prompt = false;
  const Json* variables = nullptr;  // an object: bos_token, eos_token …, and further variables such as enable_thinking
};

class ChatTemplate {
 public:
  /// `origin`: the name of the file, for messages. Throws Error(input) "ORIGIN:LINE: …" for text that cannot be parsed
  /// or is not supported.
  ChatTemplate(std::string text, std::string origin);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  bool marks_generation() const;  // whether it has {% generation %}

  /// Renders a conversation. Local, from any thread. Throws Error(input) "ORIGIN:LINE: …" if the template raises an
  /// exception, reaches an operation that fails or is not supported, or exceeds the limits of steps, bytes and depth.
  RenderedChat render(const ChatInput& input) const;
  RenderedChat render(const ChatInput& input, const jinja::TemplateLimits& limits) const;

 private:
  std::string origin_;
  std::unique_ptr<const jinja::SyntaxTree> tree_;
};

}  // namespace lockstep
