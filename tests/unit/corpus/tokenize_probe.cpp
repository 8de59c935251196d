// tokenize_probe TOKENIZER: for the tests that compare ids with other libraries. Reads JSON strings, one a line, from
// stdin; prints the ids of each as a JSON list and, as a second line, whether the text comes back: true or false.
#include "base/error.hpp"
#include "base/json.hpp"
#include "corpus/tokenizers.hpp"

#include <iostream>
#include <string>

int main(int count, char** arguments) {
  try {
    if (count != 2) lockstep::fail(lockstep::ExitCode::usage, "usage: tokenize_probe TOKENIZER");
    const std::string word = arguments[1];
    const auto tokenizer = word == "bytes" ? lockstep::make_tokenizer(word) : lockstep::load_tokenizer(word);
    const auto encoder = tokenizer->encoder();
    for (std::string line; std::getline(std::cin, line);) {
      const auto text = lockstep::parse_json(line, "stdin").get<std::string>();
      std::vector<std::int32_t> ids;
      encoder->encode(text, ids);
      std::cout << lockstep::to_text(lockstep::Json(ids)) << '\n'
                << (tokenizer->decode(ids) == text ? "true" : "false") << '\n';
    }
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
