#include "train/sample_prompts.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "chat/conversation.hpp"
#include "chat/spelled_tokens.hpp"
#include "comm/together.hpp"
#include "prepare/first_token.hpp"
#include "prepare/message_format.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view from_standard_input = "-";

/// Throws Error(input) for text that is not UTF-8.
std::string checked(std::string text, const std::string& origin) {
  if (first_invalid_utf8(text))
    throw Error(ExitCode::input, fmt::format("{} is not UTF-8", origin), "convert it to UTF-8");
  return text;
}

/// Appends what standard input has within a second. Returns true at its end.
bool read_some(std::string& content) {
  constexpr double most_s = 1;
  std::array<char, 65536> buffer{};
  for (const double begin_s = monotonic_seconds(); monotonic_seconds() - begin_s < most_s;) {
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    if (::poll(&ready, 1, 200) <= 0) continue;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) return true;
    if (got > 0)
      content.append(buffer.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR && errno != EAGAIN)
      fail_errno("read", "standard input");
  }
  return false;
}

/// Standard input, on rank 0. Ranks meet each second: for the watchdog they are at work, however long a person types.
std::string standard_input(Session& session, Log& log) {
  if (session.world().rank() == 0 && ::isatty(STDIN_FILENO) != 0)
    log.info("reading the prompt from standard input, to its end (Ctrl-D)");
  std::string content;
  for (bool ended = false; !ended;) {
    together(session.world(), {}, [&] { session.enter(Phase::start_up); });
    ended = run_on_rank0(session.world(), {}, [&] { return read_some(content) ? "end" : ""; }) == "end";
  }
  return content;
}

/// A text without the mark of its encoding (BOM) and without its last newline.
std::string text_of_file(std::string text, const std::string& origin) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  text = checked(std::move(text), origin);
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

/// A prompt as the user gave it: a text, or messages with the tools that the model may call.
Json given_text(const std::string& text, const std::string& origin) { return {{"text", text}, {"origin", origin}}; }

Json given_line(const std::string& line, const std::string& origin) {
  const Json value = parse_json(line, origin);
  if (value.is_string()) return given_text(value.get<std::string>(), origin);
  if (value.is_object() && value.contains("prompt") && value.at("prompt").is_string())
    return given_text(value.at("prompt").get<std::string>(), origin);
  if (value.is_object() && value.contains("messages"))
    return {{"messages", value.at("messages")}, {"tools", value.value("tools", Json())}, {"origin", origin}};
  throw Error(ExitCode::input, fmt::format("{} is no prompt", origin),
              "each line of a .jsonl file is a text in quotes, or an object with prompt or messages");
}

/// The prompts in their order. Of rank 0. `piped`: the content of standard input.
Json given_prompts(const TrainConfig& config, const std::string& piped) {
  Json prompts = Json::array();
  const auto add_piped = [&] {
    prompts.push_back(given_text(text_of_file(piped, "standard input"), "standard input"));
  };
  for (const std::string& text : config.sample_texts) {
    if (text == from_standard_input)
      add_piped();
    else
      prompts.push_back(given_text(checked(text, "a text of --sample"), "--sample"));
  }
  for (const std::string& file : config.sample_files) {
    if (file == from_standard_input) {
      add_piped();
      continue;
    }
    const std::string content = text_of_file(read_file(file), file);
    if (!file.ends_with(".jsonl")) {
      prompts.push_back(given_text(content, file));
      continue;
    }
    std::size_t number = 0;
    for (const std::string& line : split(content, '\n')) {
      ++number;
      if (!trim(line).empty()) prompts.push_back(given_line(line, fmt::format("line {} of {}", number, file)));
    }
  }
  return prompts;
}

/// Renders and encodes prompts. The template is read with the first conversation.
class PromptReader {
 public:
  PromptReader(const TrainConfig& config, const Tokenizer& tokenizer, const TokenizerChoice& named)
      : config_(config),
        tokenizer_(tokenizer),
        named_(named),
        encoder_(tokenizer.encoder()),
        texts_(tokenizer, config.sample.add_bos),
        names_(tokenizer.special_names()) {}

  Prompt read(const Json& given) {
    const auto origin = given.at("origin").get<std::string>();
    try {
      Prompt prompt = made_of(given);
      if (prompt.text.empty() || prompt.ids.empty())
        throw Error(ExitCode::input, "cannot continue an empty prompt", "give a prompt of at least one token");
      prompt.origin = origin;
      return prompt;
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", origin, error.what()), error.hint());
    }
  }

 private:
  Prompt made_of(const Json& given) {
    if (given.contains("messages")) return rendered(given.at("messages"), given.at("tools"));
    const auto text = given.at("text").get<std::string>();
    if (config_.chat) return rendered({{"role", "user"}, {"content", text}}, Json());
    return {.text = text, .ids = texts_.encode(text)};
  }

  Prompt rendered(const Json& messages, const Json& tools) {
    const ConversationFormat& format = this->format();
    const Conversation conversation =
        conversation_of({.messages = messages.is_object() ? Json::array({messages}) : messages,
                         .tools = tools,
                         .system = {},
                         .variables = {}},
                        "messages");
    Prompt prompt{.text = format.render(conversation, conversation.messages.size(), GenerationPrompt::added).text,
                  .ids = {}};
    std::vector<TextRange> literal;
    if (format_->spelled == SpecialTokens::text)
      for (const TextSpan& place : spelled_tokens(conversation, format, prompt.text, names_, GenerationPrompt::added))
        literal.push_back({place.begin, place.end});
    prompt.ids = encoder_->encode_marked({prompt.text, literal, {}}).ids;
    return prompt;
  }

  const ConversationFormat& format() {
    if (!format_) {
      PrepareDataOptions options = config_.data.preparation;
      options.tokenizer = named_;
      options.records.form = RecordForm::messages;
      if (!options.records.chat_template && named_.kind != TokenizerChoice::Kind::files)
        throw Error(ExitCode::usage,
                    fmt::format("messages need a chat template, and the tokenizer '{}' has none", named_.text()),
                    config_.chat ? "name one with --data.chat_template PATH, or leave --chat out"
                                 : "name one with --data.chat_template PATH");
      format_ = message_format(options, tokenizer_);
    }
    return format_->conversations;
  }

  const TrainConfig& config_;
  const Tokenizer& tokenizer_;
  const TokenizerChoice& named_;
  std::unique_ptr<Encoder> encoder_;  // of rendered messages
  PromptEncoder texts_;
  SpecialNames names_;
  std::shared_ptr<const MessageFormat> format_;
};

}  // namespace

std::vector<Prompt> read_prompts(const TrainConfig& config, const Tokenizer& tokenizer, const TokenizerChoice& named,
                                 Session& session, Log& log) {
  const bool is_piped = std::ranges::find(config.sample_texts, from_standard_input) != config.sample_texts.end() ||
                        std::ranges::find(config.sample_files, from_standard_input) != config.sample_files.end();
  const std::string piped = is_piped ? standard_input(session, log) : "";
  const std::string given = run_on_rank0(session.world(), {}, [&] { return to_text(given_prompts(config, piped)); });
  std::vector<Prompt> prompts;
  together(session.world(), {}, [&] {
    PromptReader reader(config, tokenizer, named);
    for (const Json& prompt : parse_json(given, "prompts")) prompts.push_back(reader.read(prompt));
    if (prompts.empty()) throw Error(ExitCode::input, "there is no prompt to continue: the files have none");
  });
  return prompts;
}

}  // namespace lockstep
