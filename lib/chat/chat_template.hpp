// Chat templates: conversations as the text that a model was trained on, by the Jinja that models of Hugging Face bring
// with them, rendered as transformers renders it. What of Jinja is understood: lockstep-chat-templates(5). How it
// works: chat/template_parser.hpp, chat/template_run.hpp. Files of templates: chat/chat_template_file.hpp.
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

/// Bytes of a text, half open.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct RenderedChat {
  std::string text;
  std::vector<TextSpan> generated;  // what {% generation %} blocks put out, in order
};

/// What a template sees. It is referred to while it is rendered, and not changed.
struct ChatInput {
  const Json& messages;         // an array of objects
  const Json* tools = nullptr;  // an array; without one, and of documents as well, a template sees none
  const Json* documents = nullptr;
  bool add_generation_prompt = false;
  const Json* variables =
      nullptr;  // an object: bos_token, eos_token …, and what templates take beside them, such as enable_thinking
};

class ChatTemplate {
 public:
  /// `origin`: the name of the file in messages. Throws Error(input) "ORIGIN:LINE: …" for what cannot be parsed or is
  /// not understood.
  ChatTemplate(std::string text, std::string origin);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  bool marks_generation() const;  // it has {% generation %}

  /// Local, from any thread. Throws Error(input) "ORIGIN:LINE: …" for what the template raises, meets and is not
  /// understood, or does beyond bounds of steps, bytes and depth.
  RenderedChat render(const ChatInput& input) const;
  RenderedChat render(const ChatInput& input, const jinja::TemplateLimits& limits) const;

 private:
  std::string origin_;
  std::unique_ptr<const jinja::SyntaxTree> tree_;
};

}  // namespace lockstep
