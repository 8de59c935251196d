#include "tokenizer/token_decoder.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/regular_expression.hpp"
#include "tokenizer/tokenizer_part.hpp"
#include "unicode/utf8.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

// What tokenizers of English put apart comes together.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> changes{{{" .", "."},
                                                                                   {" ?", "?"},
                                                                                   {" !", "!"},
                                                                                   {" ,", ","},
                                                                                   {" ' ", "'"},
                                                                                   {" n't", "n't"},
                                                                                   {" 'm", "'m"},
                                                                                   {" do not", " don't"},
                                                                                   {" 's", "'s"},
                                                                                   {" 've", "'ve"},
                                                                                   {" 're", "'re"}}};
  for (const auto& [what, by] : changes) replace_all(text, what, by);
}

std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    const char small = static_cast<char>(c | 0x20);
    if (!is_digit && (small < 'a' || small > 'f')) return std::nullopt;
    value = value * 16 + (is_digit ? c - '0' : small - 'a' + 10);
  }
  return static_cast<char>(value);
}

void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  bool within = false;
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of(token)) {
      if (!within) out.emplace_back();
      out.back().push_back(*byte);
      within = true;
    } else {
      out.push_back(std::move(token));
      within = false;
    }
  }
  tokens = std::move(out);
}

void strip(std::string& token, const std::string& what, std::size_t start, std::size_t stop) {
  for (; start > 0 && token.starts_with(what); --start) token.erase(0, what.size());
  for (; stop > 0 && token.ends_with(what); --stop) token.erase(token.size() - what.size());
}

}  // namespace

class TokenDecoderReader {
 public:
  explicit TokenDecoderReader(TokenDecoder& decoder) : to_(decoder) {}

  void read(const TokenizerPart& part) {
    const std::string& type = part.type();
    if (type == "Sequence") {
      part.require_only({"decoders"});
      for (const TokenizerPart& one : part.parts("decoders")) read(one);
    } else if (type == "ByteLevel") {
      part.require_only({"add_prefix_space", "trim_offsets", "use_regex"});
      add([](std::vector<std::string>& tokens) {
        std::string text;
        for (const std::string& token : tokens) text += from_byte_level(token).value_or(token);
        tokens = {std::move(text)};
      });
    } else if (type == "WordPiece") {
      part.require_only({"prefix", "cleanup"});
      add([prefix = part.text("prefix"), cleans = part.flag("cleanup")](std::vector<std::string>& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          if (i > 0 && tokens[i].starts_with(prefix)) {
            tokens[i].erase(0, prefix.size());
          } else if (i > 0) {
            tokens[i].insert(0, " ");
          }
          if (cleans) clean_up(tokens[i]);
        }
      });
    } else if (type == "Metaspace") {
      read_metaspace(part);
    } else if (type == "BPEDecoder") {
      part.require_only({"suffix"});
      const std::string suffix = part.text("suffix");
      if (suffix.empty()) part.refuse("suffix");
      add([suffix](std::vector<std::string>& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i)
          replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
      });
    } else if (type == "Replace") {
      read_replace(part);
    } else if (type == "Fuse") {
      part.require_only({});
      add([](std::vector<std::string>& tokens) { tokens = {join(tokens, "")}; });
    } else if (type == "ByteFallback") {
      part.require_only({});
      add(join_bytes);
    } else if (type == "Strip") {
      part.require_only({"content", "start", "stop"});
      std::string what;
      append_code_point(what, part.character("content"));
      add([what, start = part.count("start"), stop = part.count("stop")](std::vector<std::string>& tokens) {
        for (std::string& token : tokens) strip(token, what, start, stop);
      });
    } else {
      part.refuse();
    }
  }

 private:
  void add(TokenDecoder::Step step) { to_.steps_.push_back(std::move(step)); }

  void read_metaspace(const TokenizerPart& part) {
    part.require_only({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    std::string own;
    append_code_point(own, part.character("replacement"));
    const std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    add([own, drops = scheme != "never"](std::vector<std::string>& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], own, i == 0 && drops ? "" : " ");
    });
  }

  void read_replace(const TokenizerPart& part) {
    part.require_only({"pattern", "content"});
    const auto [is_expression, what] = part.pattern();
    if (what.empty()) part.refuse("pattern");
    const std::string by = part.text("content");
    if (!is_expression) {
      add([what = what, by](std::vector<std::string>& tokens) {
        for (std::string& token : tokens) replace_all(token, what, by);
      });
      return;
    }
    add([expression = RegularExpression(what, part.where()), by](std::vector<std::string>& tokens) {
      for (std::string& token : tokens) {
        std::string out;
        std::size_t done = 0;
        expression.for_each(token, [&](std::size_t begin, std::size_t end) {
          out.append(token, done, begin - done).append(by);
          done = end;
        });
        token = out.append(token, done, std::string::npos);
      }
    });
  }

  TokenDecoder& to_;
};

TokenDecoder::TokenDecoder(const Json& decoder, const std::string& where) : is_none_(decoder.is_null()) {
  if (is_none_) return;
  const TokenizerPart part(decoder, where);
  is_byte_level_ = part.type() == "ByteLevel";
  TokenDecoderReader(*this).read(part);
}

std::string TokenDecoder::apply(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) step(tokens);
  return join(tokens, is_none_ ? " " : "");
}

}  // namespace lockstep
