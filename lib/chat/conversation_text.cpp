#include "chat/conversation_text.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* turns_hint =
    "use a template with {% generation %}, which marks the assistant's text; or data.train_on: last, which needs "
    "only the last turn; or data.malformed: skip to skip such records";

/// A few bytes from `at` on, for messages.
std::string excerpt(std::string_view text, std::size_t at) {
  constexpr std::size_t most = 40;
  const bool ends = text.size() <= at + most;
  std::string_view part = text.substr(at, most);
  while (!ends && !part.empty() && first_invalid_utf8(part)) part.remove_suffix(1);
  return part.empty() ? "its end" : to_text(Json(std::string(part))) + (ends ? "" : "…");
}

/// Where a text is not the beginning of the whole, for messages.
std::string difference(const std::string& text, const std::string& whole) {
  const auto differs = std::ranges::mismatch(text, whole).in1 - text.begin();
  auto at = static_cast<std::size_t>(differs);
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return fmt::format("as {} at byte {}, where the whole conversation has {}", excerpt(text, at), at,
                     excerpt(whole, at));
}

/// The longest beginning of `place` that ends `text` (Knuth, Morris and Pratt 1977).
std::size_t overlap(std::string_view text, std::string_view place) {
  place = place.substr(0, text.size());
  std::vector<std::size_t> border(place.size() + 1, 0);  // of the first bytes of place, by their number
  const auto longer = [&](std::size_t length, char next) {
    while (length == place.size() || place[length] != next) {
      if (length == 0) return length;
      length = border[length];
    }
    return length + 1;
  };
  for (std::size_t i = 1; i < place.size(); ++i) border[i + 1] = longer(border[i], place[i]);
  std::size_t length = 0;
  for (const char byte : text) length = place.empty() ? 0 : longer(length, byte);
  return length;
}

/// Whether a text has the end of what a message says: of the last word of its content, and of the name of the tool that
/// it calls the last.
bool has_end_of(const Json& message, std::string_view text) {
  constexpr std::size_t most = 4;  // bytes: what is left of a turn may be short
  std::vector<std::string_view> said;
  const auto content = message.find("content"), calls = message.find("tool_calls");
  if (content != message.end() && content->is_string()) said.push_back(content->get_ref<const std::string&>());
  if (calls != message.end() && calls->is_array() && !calls->empty()) {
    const Json& last = calls->back();
    const auto function = last.find("function");
    const Json& called = function == last.end() ? last : *function;
    if (const auto name = called.find("name"); name != called.end() && name->is_string())
      said.push_back(name->get_ref<const std::string&>());
  }
  for (std::string_view& words : said) {
    words = trim(words);
    words.remove_prefix(words.find_last_of(" \t\r\n") + 1);  // nothing before the first word
    words.remove_prefix(words.size() - std::min(words.size(), most));
  }
  std::erase(said, std::string_view());
  return !said.empty() &&
         std::ranges::all_of(said, [&](std::string_view end) { return text.find(end) != std::string_view::npos; });
}

class TurnFinder {
 public:
  TurnFinder(const Conversation& conversation, const ConversationFormat& format)
      : conversation_(conversation), messages_(conversation.messages), format_(format) {
    whole_ = format.render(conversation, messages_.size(), GenerationPrompt::absent);
  }

  RenderedChat& whole() { return whole_; }

  /// What the assistant writes as message `i`.
  std::vector<TextSpan> turn(std::size_t i) const {
    return format_.chat_of(conversation_).marks_generation() ? marked_turn(i) : std::vector{turn_by_prefixes(i)};
  }

 private:
  RenderedChat render_first(std::size_t count, GenerationPrompt prompt) const {
    try {
      return format_.render(conversation_, count, prompt);
    } catch (const Error& problem) {
      if (problem.code() != ExitCode::input) throw;
      throw Error(
          ExitCode::input,
          fmt::format("cannot find the text of the assistant: the template cannot render only the first {} of {} "
                      "messages: {}",
                      count, messages_.size(), problem.what()),
          turns_hint);
    }
  }

  // Blocks do not say of which message they are; those of the first messages come first.
  std::vector<TextSpan> marked_turn(std::size_t i) const {
    const auto blocks_of = [&](std::size_t count) {
      if (count == 0) return std::size_t{0};
      return count == messages_.size() ? whole_.generated.size()
                                       : render_first(count, GenerationPrompt::absent).generated.size();
    };
    const std::size_t begin = blocks_of(i), end = blocks_of(i + 1);
    if (begin > end || end > whole_.generated.size())
      throw Error(
          ExitCode::input,
          fmt::format("cannot tell which {{% generation %}} blocks belong to message {}: the template renders {} "
                      "of them for the messages before it, {} including it and {} for all messages",
                      i, begin, end, whole_.generated.size()),
          turns_hint);
    return {whole_.generated.begin() + static_cast<std::ptrdiff_t>(begin),
            whole_.generated.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  TextSpan turn_by_prefixes(std::size_t i) const {
    const std::string before = render_first(i, GenerationPrompt::added).text;
    require_prefix(before, i, "with a generation prompt ");
    if (i + 1 == messages_.size()) return {before.size(), whole_.text.size()};
    const std::string with = render_first(i + 1, GenerationPrompt::absent).text;
    if (const std::size_t kept = kept_of_turn(i, before.size(), with); kept > 0)
      return {before.size(), before.size() + kept};
    require_prefix(with, i + 1, "");
    if (with.size() < before.size())
      throw Error(ExitCode::input,
                  fmt::format("cannot find the text of the assistant: the template renders less text for the first {} "
                              "messages than for the first {} with a generation prompt",
                              i + 1, i),
                  turns_hint);
    return {before.size(), with.size()};
  }

  // Templates of models that reason leave the head of a turn out, its reasoning, where others follow. What stands in
  // its place is then the end of the turn as it was rendered last. Returns its length; 0 where that is not so.
  std::size_t kept_of_turn(std::size_t i, std::size_t begin, std::string_view with) const {
    const std::string_view whole = whole_.text;
    if (whole.starts_with(with) || !with.starts_with(whole.substr(0, begin))) return 0;
    const std::string_view place = whole.substr(begin);
    const std::size_t length = overlap(with.substr(begin), place);
    return has_end_of(messages_[i], place.substr(0, length)) ? length : 0;
  }

  void require_prefix(const std::string& text, std::size_t count, std::string_view how) const {
    if (whole_.text.starts_with(text)) return;
    throw Error(ExitCode::input,
                fmt::format("cannot find the text of the assistant: the template renders the first {} of {} messages {}"
                            "{}",
                            count, messages_.size(), how, difference(text, whole_.text)),
                turns_hint);
  }

  const Conversation& conversation_;
  const Json& messages_;  // of it
  const ConversationFormat& format_;
  RenderedChat whole_;
};

/// Puts spans together that touch each other.
std::vector<TextSpan> joined(const std::vector<TextSpan>& spans) {
  std::vector<TextSpan> made;
  for (const TextSpan& span : spans) {
    if (span.begin == span.end) continue;
    if (!made.empty() && span.begin < made.back().end)
      throw Error(ExitCode::input,
                  fmt::format("cannot find the text of the assistant: two of its turns overlap at byte {} of the text",
                              span.begin),
                  turns_hint);
    if (!made.empty() && span.begin == made.back().end) {
      made.back().end = span.end;
    } else {
      made.push_back(span);
    }
  }
  return made;
}

/// What is left of [0, size) without `spans`.
std::vector<TextSpan> others(const std::vector<TextSpan>& spans, std::size_t size) {
  std::vector<TextSpan> made;
  std::size_t done = 0;
  for (const TextSpan& span : spans) {
    if (span.begin > done) made.push_back({done, span.begin});
    done = span.end;
  }
  if (size > done) made.push_back({done, size});
  return made;
}

void refuse_weight_of_others(const Json& messages, TrainedTurns counted) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto weight = messages[i].find("weight");
    if (is_of_assistant(messages[i]) || weight == messages[i].end()) continue;
    if ((*weight == 1) == (counted == TrainedTurns::all)) continue;
    fail(ExitCode::input, "message {} has the role {} and the weight {}, but {}", i, to_text(messages[i]["role"]),
         to_text(*weight),
         counted == TrainedTurns::all ? "all of its text is trained on"
                                      : "only messages of the assistant are trained on");
  }
}

}  // namespace

RenderedChat ConversationFormat::render(const Conversation& conversation, std::size_t count,
                                        GenerationPrompt prompt) const {
  const Json& all = conversation.messages;
  Json first = Json::array();
  if (count < all.size())
    first.get_ref<Json::array_t&>().assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  Json merged;
  if (!conversation.variables.empty()) {
    merged = variables;
    merged.update(conversation.variables);
  }
  return chat_of(conversation)
      .render({.messages = count < all.size() ? first : all,
               .tools = conversation.tools.is_null() ? nullptr : &conversation.tools,
               .add_generation_prompt = prompt == GenerationPrompt::added,
               .variables = merged.is_null() ? &variables : &merged});
}

ConversationText text_of(const Conversation& conversation, const ConversationFormat& format, TrainedTurns counted) {
  const Json& messages = conversation.messages;
  refuse_weight_of_others(messages, counted);
  TurnFinder turns(conversation, format);
  std::vector<std::size_t> chosen;  // messages whose turns are looked for
  std::size_t of_assistant = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_of_assistant(messages[i])) continue;
    ++of_assistant;
    if (counted == TrainedTurns::last) chosen.clear();
    if (has_weight(messages[i]) != (counted == TrainedTurns::all)) chosen.push_back(i);
  }
  std::vector<TextSpan> spans;
  if (format.chat_of(conversation).marks_generation() && counted == TrainedTurns::assistant &&
      chosen.size() == of_assistant) {
    spans = turns.whole().generated;  // blocks of all roles count, as in transformers
  } else {
    for (const std::size_t i : chosen) {
      const std::vector<TextSpan> turn = turns.turn(i);
      spans.insert(spans.end(), turn.begin(), turn.end());
    }
  }
  spans = joined(spans);
  if (spans.empty() && !chosen.empty() && counted != TrainedTurns::all)
    throw Error(ExitCode::input, "cannot find the text of the assistant: the template renders nothing for it",
                turns_hint);
  ConversationText made{.text = std::move(turns.whole().text)};
  made.counted = counted == TrainedTurns::all ? others(spans, made.text.size()) : std::move(spans);
  const bool last_is_marked = of_assistant == 0 && !made.counted.empty() && counted == TrainedTurns::assistant &&
                              !turns.turn(messages.size() - 1).empty();
  const bool last_is_chosen = last_is_marked || (!chosen.empty() && chosen.back() + 1 == messages.size());
  made.counts_at_end = last_is_chosen != (counted == TrainedTurns::all);
  return made;
}

ConversationText text_with_completion(const Conversation& conversation, std::size_t prompt,
                                      const ConversationFormat& format) {
  const std::string before = format.render(conversation, prompt, GenerationPrompt::added).text;
  ConversationText made{.text =
                            format.render(conversation, conversation.messages.size(), GenerationPrompt::absent).text};
  if (!made.text.starts_with(before))
    throw Error(ExitCode::input,
                fmt::format("cannot tell where the completion begins: the template renders the prompt with a "
                            "generation prompt {}",
                            difference(before, made.text)),
                "use data.malformed: skip to skip such records");
  if (before.size() < made.text.size()) made.counted = {{before.size(), made.text.size()}};
  made.counts_at_end = true;
  return made;
}

}  // namespace lockstep
