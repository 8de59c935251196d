// The tokenizers there are, by the words that options use, and how a folder carries one. To add a tokenizer: implement corpus/tokenizer.hpp
// and give it a word in make_tokenizer and a recognisable tokenizer.json in load_tokenizer.
#pragma once

#include "corpus/tokenizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// 256 ids, one a byte, and end-of-text = 256.
std::unique_ptr<Tokenizer> bytes_tokenizer();

/// One id a character: its rank among `characters`, which are sorted and unique. With `end_of_text` one more id joins documents.
enum class CharsEnd { none, end_of_text };
std::unique_ptr<Tokenizer> chars_tokenizer(std::vector<char32_t> characters, CharsEnd end);

/// Byte-level BPE as GPT-2 has it, from a folder with tokenizer.json or with vocab.json and merges.txt, or from such a tokenizer.json.
/// Throws Error(input) for a missing or malformed file, Error(usage) that names whatever in it we cannot honour.
std::unique_ptr<Tokenizer> bpe_tokenizer(const Path& path);

/// "bytes" or a path as bpe_tokenizer takes it. "chars" needs the corpus: see chars_tokenizer. Throws Error(usage) for another word.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word);

/// Writes the tokenizer's files into the folder, which is made. Throws Error(storage).
void save_tokenizer(const Tokenizer& tokenizer, const Path& folder);
/// The tokenizer that save_tokenizer, or Hugging Face, left in the folder. Throws Error(input).
std::unique_ptr<Tokenizer> load_tokenizer(const Path& folder);

}  // namespace lockstep
