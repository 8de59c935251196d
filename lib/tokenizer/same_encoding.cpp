#include "tokenizer/same_encoding.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace lockstep {

namespace {

using Ids = std::vector<std::int32_t>;

// Case, accents as one character and as two, wide and joined characters, digits, white space, marks, emoji.
constexpr std::array probes{
    "The quick brown fox isn't 'quoted', IT'S we'll  two   spaces\ttab\r\n\r\n\n new lines \n",
    " 1 12 123 1234 12345678 3.14 1,000 0x1F ½ Ⅳ ²",
    "caf\u00e9 cafe\u0301 \u00c5\u212b\u0041\u030a \ufb01\ufb02 \uff21\uff22 \u00df \u0130 \u03a3\u03c3\u03c2",
    "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \uc548\ub155 \u0645\u0631\u062d\u0628\u0627 \u0928\u092e",
    "\U0001f600\U0001f468\u200d\U0001f469 \u00a0\u2003\u200b\ufeff\u00ad \u2026\u2014\u201c\u201d",
    "def f(x):\n\treturn x**2  # _a__b_ <tag/> {\"k\": [1]} a@b.c http://x.y/?z=1&q\\n"};

/// The ids of a text; nothing where the tokenizer refuses it.
std::optional<Ids> ids_of(Encoder& encoder, std::string_view text) {
  Ids ids;
  try {
    encoder.encode(text, ids);
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    return std::nullopt;
  }
  return ids;
}

/// The ids of special tokens by their names.
std::map<std::string, std::int32_t> special_ids(const Tokenizer& tokenizer) {
  std::map<std::string, std::int32_t> found;
  const auto encoder = tokenizer.encoder();
  for (const std::string& name : tokenizer.special_names()) {
    if (first_invalid_utf8(name)) continue;
    const Ids ids = encoder->encode_marked({name, {}, {}}).ids;
    if (ids.size() == 1) found.emplace(name, ids[0]);
  }
  return found;
}

/// Whether no name has two ids, and no id two names.
bool agree(const std::map<std::string, std::int32_t>& first, const std::map<std::string, std::int32_t>& second) {
  std::map<std::int32_t, std::string> names;
  for (const auto& [name, id] : first) {
    const auto other = second.find(name);
    if (other != second.end() && other->second != id) return false;
    names.emplace(id, name);
  }
  return std::ranges::all_of(second, [&](const auto& entry) {
    const auto other = names.find(entry.second);
    return other == names.end() || other->second == entry.first;
  });
}

/// Texts that have all tokens of the tokenizer, but for special ones.
void add_token_texts(const Tokenizer& tokenizer, const std::set<std::int32_t>& special,
                     std::vector<std::string>& texts) {
  constexpr std::size_t most_bytes = 4096;
  std::string text;
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (special.contains(id)) continue;
    const std::string token = tokenizer.decode({&id, 1});
    if (token.empty() || first_invalid_utf8(token)) continue;
    text += token;
    if (id % 2 == 0) text += ' ';
    if (text.size() < most_bytes) continue;
    texts.push_back(std::move(text));
    text.clear();
  }
  texts.push_back(std::move(text));
}

}  // namespace

bool same_encoding(const Tokenizer& first, const Tokenizer& second) {
  if (first.hash() == second.hash()) return true;
  const auto first_special = special_ids(first), second_special = special_ids(second);
  if (!agree(first_special, second_special)) return false;
  std::set<std::int32_t> special;
  for (const auto* const ids : {&first_special, &second_special})
    for (const auto& [name, id] : *ids) special.insert(id);
  for (std::int32_t id = 0; id < std::min(first.vocabulary(), second.vocabulary()); ++id)
    if (!special.contains(id) && first.decode({&id, 1}) != second.decode({&id, 1})) return false;
  std::vector<std::string> texts(probes.begin(), probes.end());
  add_token_texts(first, special, texts);
  add_token_texts(second, special, texts);
  const auto first_encoder = first.encoder(), second_encoder = second.encoder();
  return std::ranges::all_of(
      texts, [&](const std::string& text) { return ids_of(*first_encoder, text) == ids_of(*second_encoder, text); });
}

}  // namespace lockstep
