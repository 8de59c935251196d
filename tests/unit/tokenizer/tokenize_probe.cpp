// tokenize_probe TOKENIZER: for the tests that compare ids with other libraries. Reads JSON strings, one a line, from
// stdin; prints of each a JSON object: "ids"; "text", decoded from them; "cuts", at how many places the tokenizer lets
// the text be cut, asked of each of its heads; "parts", whether the parts have these ids at all of them.
#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/tokenizers.hpp"
#include "unicode/utf8.hpp"

#include <iostream>
#include <set>
#include <string>

namespace {

using namespace lockstep;
using Ids = std::vector<std::int32_t>;

constexpr std::size_t longest_cut_text = 400;  // bytes; cuts of longer texts are not looked for

Json probe(const Tokenizer& tokenizer, Encoder& encoder, std::string_view text) {
  Ids ids;
  encoder.encode(text, ids);
  std::set<std::size_t> cuts;
  if (text.size() <= longest_cut_text) {
    for (std::size_t end = 0; end < text.size(); next_code_point(text, end))
      cuts.insert(tokenizer.last_cut(text.substr(0, end)));
    cuts.insert(tokenizer.last_cut(text));
    cuts.erase(0);
  }
  bool equal = true;
  for (const std::size_t cut : cuts) {
    Ids parts;
    encoder.encode(text.substr(0, cut), parts);
    encoder.encode(text.substr(cut), parts);
    equal = equal && parts == ids;
  }
  return {{"ids", ids}, {"text", tokenizer.decode(ids)}, {"cuts", cuts.size()}, {"parts", equal}};
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) fail(ExitCode::usage, "usage: tokenize_probe TOKENIZER");
    const std::string word = arguments[1];
    const auto tokenizer = is_folder(word) ? load_tokenizer(word) : make_tokenizer(word);
    const auto encoder = tokenizer->encoder();
    for (std::string line; std::getline(std::cin, line);)
      std::cout << to_text(probe(*tokenizer, *encoder, parse_json(line, "stdin").get<std::string>())) << '\n';
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
