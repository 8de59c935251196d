#include "tokenizer/rank_file.hpp"

#include "base/error.hpp"
#include "tokenizer/base64.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr std::size_t longest_token = 4096;  // bytes; each cut of a token is looked up

struct Line {
  std::string bytes;
  std::int32_t rank;
};

std::optional<Line> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  std::int32_t rank = 0;
  const std::string_view digits = line.substr(space + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != digits.data() + digits.size() || rank < 0)
    return std::nullopt;
  return Line{std::move(*bytes), rank};
}

std::string_view first_line(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// What belongs to a number of ranks: the pattern, and the special tokens that follow the ranks, by their places.
struct KnownRanks {
  std::size_t ranks;
  PieceRule rule;
  const char* end_name;
  std::vector<std::pair<std::size_t, std::string>> specials;
};

std::vector<KnownRanks> known_ranks() {
  std::vector<std::pair<std::size_t, std::string>> llama3{
      {0, "<|begin_of_text|>"},   {1, "<|end_of_text|>"},   {4, "<|finetune_right_pad_id|>"},
      {6, "<|start_header_id|>"}, {7, "<|end_header_id|>"}, {8, "<|eom_id|>"},
      {9, "<|eot_id|>"},          {10, "<|python_tag|>"}};
  const std::array<bool, 256> named = [&] {
    std::array<bool, 256> taken{};
    for (const auto& [place, name] : llama3) taken[place] = true;
    return taken;
  }();
  for (std::size_t place = 0, number = 0; place < named.size(); ++place) {
    if (!named[place]) llama3.emplace_back(place, fmt::format("<|reserved_special_token_{}|>", number++));
  }
  return {{50256, PieceRule::gpt2, "<|endoftext|>", {{0, "<|endoftext|>"}}},
          {100256,
           PieceRule::llama3,
           "<|endoftext|>",
           {{1, "<|endoftext|>"},
            {2, "<|fim_prefix|>"},
            {3, "<|fim_middle|>"},
            {4, "<|fim_suffix|>"},
            {20, "<|endofprompt|>"}}},
          {128000, PieceRule::llama3, "<|end_of_text|>", llama3},
          {199998, PieceRule::o200k, "<|endoftext|>", {{1, "<|endoftext|>"}, {20, "<|endofprompt|>"}}}};
}

// tiktoken joins any two neighbours that make a token, the token of lowest rank first. So every cut of a token into two
// others is a merge.
std::vector<std::pair<std::string, std::string>> merges_of(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, std::size_t> ranks;
  ranks.reserve(tokens.size());
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) ranks.emplace(tokens[rank], rank);
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::pair<std::size_t, std::size_t>> of_token;
  for (const std::string& token : tokens) {
    of_token.clear();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ranks.find(std::string_view(token).substr(0, cut));
      const auto right = ranks.find(std::string_view(token).substr(cut));
      if (left != ranks.end() && right != ranks.end()) of_token.emplace_back(left->second, right->second);
    }
    std::ranges::sort(of_token);
    for (const auto& [left, right] : of_token)
      merges.emplace_back(to_byte_level(tokens[left]), to_byte_level(tokens[right]));
  }
  return merges;
}

}  // namespace

bool is_rank_file(std::string_view text) { return parse_line(first_line(text)).has_value(); }

TokenizerDescription read_rank_file(std::string_view text, const std::string& origin) {
  std::vector<std::string> tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = first_line(text);
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    if (line.empty()) continue;
    std::optional<Line> parsed = parse_line(line);
    if (!parsed) fail(ExitCode::input, "{}:{}: not a token in base64 and its rank", origin, number);
    if (static_cast<std::size_t>(parsed->rank) != tokens.size())
      fail(ExitCode::input, "{}:{}: the rank is {}, but {} comes next", origin, number, parsed->rank, tokens.size());
    if (parsed->bytes.size() > longest_token)
      fail(ExitCode::input, "{}:{}: a token has {} bytes, more than {}", origin, number, parsed->bytes.size(),
           longest_token);
    tokens.push_back(std::move(parsed->bytes));
  }
  const std::vector<KnownRanks> all = known_ranks();
  const auto known = std::ranges::find(all, tokens.size(), &KnownRanks::ranks);
  if (known == all.end()) {
    throw Error(
        ExitCode::usage,
        fmt::format(
            "{}: a rank file has no pattern and no special tokens, and those of a file with {} ranks are not known",
            origin, tokens.size()),
        "known numbers of ranks: 50256 (GPT-2), 100256 (cl100k), 128000 (Llama-3), 199998 (o200k); convert other files "
        "to tokenizer.json");
  }
  TokenizerDescription tokenizer;
  tokenizer.model.whole_pieces_first = true;
  tokenizer.model.vocabulary.reserve(tokens.size());
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    tokenizer.model.vocabulary.emplace_back(to_byte_level(tokens[rank]), static_cast<std::int32_t>(rank));
  tokenizer.model.merges = merges_of(tokens);
  const std::size_t last = std::ranges::max_element(known->specials)->first;
  for (std::size_t place = 0; place <= last; ++place) {
    const auto special = std::ranges::find(known->specials, place, &std::pair<std::size_t, std::string>::first);
    const std::size_t id = tokens.size() + place;
    tokenizer.added_tokens.push_back({static_cast<std::int32_t>(id), special == known->specials.end()
                                                                         ? fmt::format("<|unused_{}|>", id)
                                                                         : special->second});
  }
  tokenizer.pre_tokenizer = PreTokenizer(known->rule);
  tokenizer.end_name = known->end_name;
  tokenizer.files = {{"tokenizer.json", bpe_tokenizer_json(tokenizer, byte_level_parts(known->rule))},
                     {"tokenizer_config.json", tokenizer_config_json(tokenizer.end_name, SpecialTokens::special)}};
  return tokenizer;
}

}  // namespace lockstep
