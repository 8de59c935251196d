#include "chat/spelled_tokens.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view first_mark = "\u2800";  // 256 patterns of Braille: no letters, no space, and printable
constexpr int marks = 256;

std::string mark_number(int number) {
  std::string mark(first_mark);
  mark[1] = static_cast<char>(static_cast<unsigned char>(mark[1]) + number / 64);
  mark[2] = static_cast<char>(static_cast<unsigned char>(mark[2]) + number % 64);
  return mark;
}

std::string unused_mark(std::string_view text) {
  for (int number = marks; number-- > 0;) {
    std::string mark = mark_number(number);
    if (text.find(mark) == std::string_view::npos) return mark;
  }
  fail(ExitCode::input,
       "cannot mark the special tokens that messages spell out: the messages contain all 256 Braille patterns");
}

/// Copies a value with marks before the places that are found in its texts.
class Marker {
 public:
  Marker(const SpecialNames& names, std::string mark) : names_(names), mark_(std::move(mark)) {}

  Json marked(const Json& value) {
    if (value.is_string()) return marked_text(value.get_ref<const std::string&>());
    if (!value.is_structured()) return value;
    Json made = value.is_array() ? Json::array() : Json::object();
    if (value.is_array()) {
      for (const Json& item : value) made.push_back(marked(item));
    } else {
      for (const auto& [key, item] : value.items()) made[marked_text(key)] = marked(item);
    }
    return made;
  }

  bool found_any() const { return found_any_; }

 private:
  std::string marked_text(const std::string& text) {
    std::string made;
    std::size_t done = 0;
    for (const std::size_t at : names_.found_in(text)) {
      found_any_ = true;
      made.append(text, done, at - done).append(mark_);
      done = at;
    }
    return made.append(text, done);
  }

  const SpecialNames& names_;
  std::string mark_;
  bool found_any_ = false;
};

std::size_t size_of_character(std::string_view text, std::size_t at) {
  std::size_t size = 1;
  while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

SpecialNames::SpecialNames(std::vector<std::string> names) : names_(std::move(names)) {
  std::erase(names_, "");
  for (const std::string& name : names_) is_lead_[static_cast<unsigned char>(name.front())] = true;
}

bool SpecialNames::begins_at(std::string_view rest) const {
  return std::ranges::any_of(names_, [&](const std::string& name) {
    const std::size_t seen = std::min(name.size(), rest.size());
    return rest.substr(0, seen) == std::string_view(name).substr(0, seen);
  });
}

std::vector<std::size_t> SpecialNames::found_in(std::string_view text) const {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_lead_[static_cast<unsigned char>(text[at])] && begins_at(text.substr(at))) places.push_back(at);
  }
  return places;
}

std::vector<TextSpan> spelled_tokens(const Conversation& conversation, const ConversationFormat& format,
                                     const std::string& text, const SpecialNames& names, GenerationPrompt prompt) {
  const std::string mark = unused_mark(text);
  Marker marker(names, mark);
  const Conversation with_marks{marker.marked(conversation.messages), marker.marked(conversation.tools),
                                marker.marked(conversation.variables)};
  if (!marker.found_any()) return {};
  const std::string marked = format.render(with_marks, with_marks.messages.size(), prompt).text;
  std::string unmarked;
  std::vector<TextSpan> places;
  for (std::size_t done = 0; done < marked.size();) {
    const std::size_t at = std::min(marked.find(mark, done), marked.size());
    unmarked.append(marked, done, at - done);
    if (at == marked.size()) break;
    if (places.empty() || places.back().begin < unmarked.size()) places.push_back({unmarked.size(), unmarked.size()});
    done = at + mark.size();
  }
  if (unmarked != text)
    throw Error(
        ExitCode::input,
        "cannot tell which special tokens are the template's: messages spell some out, and the template changes the "
        "text when these are marked",
        "data.special_tokens: special treats them as special tokens in messages too");
  if (!places.empty() && places.back().begin == text.size()) places.pop_back();
  for (TextSpan& place : places) place.end = place.begin + size_of_character(text, place.begin);
  return places;
}

}  // namespace lockstep
