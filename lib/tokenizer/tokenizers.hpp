// Makes tokenizers from the words that options use, and saves and loads them in folders. To add a tokenizer: implement
// tokenizer/tokenizer.hpp, give it a word in make_tokenizer and, if it has a tokenizer.json of its own, a line in
// load_tokenizer that recognises it. Supported parts of foreign tokenizer.json files: tokenizer/tokenizer_json.hpp.
#pragma once

#include "tokenizer/tokenizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

constexpr const char* default_end_name = "<|endoftext|>";

// A special token that a document spells out gets by default the ids that the tokenizers library gives with the
// tokenizer's own tokenizer.json. The end-of-text token is always marked as special there.

/// 256 ids, one for each byte, and end-of-text = 256, shown as `end_name`.
std::unique_ptr<Tokenizer> bytes_tokenizer(const std::string& end_name = default_end_name,
                                           SpecialTokens reading = SpecialTokens::special);

/// One id for each character: its rank among `characters`, which are sorted and unique. Unless `end_name` is empty, one
/// more id joins documents.
std::unique_ptr<Tokenizer> chars_tokenizer(std::vector<char32_t> characters, const std::string& end_name,
                                           SpecialTokens reading = SpecialTokens::special);

/// Reads a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt (as its tokenizer_class reads
/// them; default: GPT-2's). Also reads a file: a tokenizer.json of any name, tiktoken's ranks, or a sentencepiece
/// model. Adds the tokens that files next to it declare (tokenizer/declared_tokens.hpp). `end_name` names the
/// end-of-text token; empty: the eos_token there, or a customary one, or none. `reading` not set: as
/// tokenizer_config.json says. Throws Error(input) for a missing or malformed file, Error(usage) naming the part that
/// is not supported or not found.
std::unique_ptr<Tokenizer> file_tokenizer(const Path& path, const std::string& end_name = {},
                                          std::optional<SpecialTokens> reading = {});

/// The tokenizer of a plug-in with this name; null if there is none. Throws Error(usage) for an end name and for
/// special tokens read as text, because the plug-in decides both. Throws Error(input) if the plug-in fails.
std::unique_ptr<Tokenizer> plugin_tokenizer(const std::string& word, const std::string& end_name,
                                            SpecialTokens reading);

/// Makes the tokenizer that a word names: "bytes", a tokenizer of a plug-in, a path as for file_tokenizer, or a model
/// in the cache of the Hugging Face hub. A folder that save_tokenizer wrote gives the tokenizer that was saved. "chars"
/// depends on the corpus and is refused here: see chars_tokenizer.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word, const std::string& end_name = {},
                                          SpecialTokens reading = SpecialTokens::special);

/// Whether a folder, which may be absent, contains the files of a tokenizer that make_tokenizer accepts. Local.
bool holds_tokenizer(const Path& folder);

/// The files that save_tokenizer writes: the tokenizer's files and its chat templates. Pure.
std::vector<TokenizerFile> saved_files(const Tokenizer& tokenizer);
/// Creates the folder and writes the tokenizer's files into it. Throws Error(storage).
void save_tokenizer(const Tokenizer& tokenizer, const Path& folder);
/// The tokenizer of a plug-in that save_tokenizer wrote into the folder; null if there is none. Throws Error(input) if
/// the plug-in is not open, or now has another version or other options.
std::unique_ptr<Tokenizer> load_plugin_tokenizer(const Path& folder);
/// The tokenizer that save_tokenizer or Hugging Face wrote into the folder. Throws as file_tokenizer and
/// load_plugin_tokenizer do.
std::unique_ptr<Tokenizer> load_tokenizer(const Path& folder);
/// The end-of-text id of the tokenizer in the folder. A tokenizer of a plug-in need not be open for this. Otherwise
/// throws as load_tokenizer does.
std::optional<std::int32_t> end_of_text_in(const Path& folder);

}  // namespace lockstep
