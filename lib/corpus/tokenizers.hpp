// The tokenizers there are, by the words that options use, and how a folder carries one. To add a tokenizer: implement
// corpus/tokenizer.hpp, give it a word in make_tokenizer and, if it has a tokenizer.json of its own, a line in
// load_tokenizer that recognises it. What a tokenizer.json of others may say: corpus/tokenizer_json.hpp.
#pragma once

#include "corpus/tokenizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

constexpr const char* default_end_name = "<|endoftext|>";

// Where a document spells a special token out, its ids are by default those that the tokenizers library gives with the
// tokenizer's own tokenizer.json, in which the end-of-text token is always marked.

/// 256 ids, one a byte, and end-of-text = 256, shown as `end_name`.
std::unique_ptr<Tokenizer> bytes_tokenizer(const std::string& end_name = default_end_name,
                                           SpecialTokens reading = SpecialTokens::special);

/// One id a character: its rank among `characters`, which are sorted and unique. Unless `end_name` is empty, one more
/// id joins documents.
std::unique_ptr<Tokenizer> chars_tokenizer(std::vector<char32_t> characters, const std::string& end_name,
                                           SpecialTokens reading = SpecialTokens::special);

/// Of a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt (as its tokenizer_class reads them,
/// by default GPT-2's), or of a file like tokenizer.json, tiktoken's ranks, or sentencepiece's model; with the tokens
/// that files beside it declare (corpus/declared_tokens.hpp). `end_name` names its end-of-text token; empty: the
/// eos_token there, or a customary one, or none. `reading` absent: as tokenizer_config.json says. Throws Error(input)
/// for a missing or malformed file, Error(usage) that names the part that is not supported or not found.
std::unique_ptr<Tokenizer> file_tokenizer(const Path& path, const std::string& end_name = {},
                                          std::optional<SpecialTokens> reading = {});

/// That of a plug-in with this name; null if there is none. Throws Error(usage) for an end name, and for special tokens
/// read as text: it decides both. Throws Error(input) where the plug-in fails.
std::unique_ptr<Tokenizer> plugin_tokenizer(const std::string& word, const std::string& end_name,
                                            SpecialTokens reading);

/// "bytes", one of a plug-in, or a path as file_tokenizer takes it; a folder that save_tokenizer wrote gives the
/// tokenizer that was saved. "chars" depends on the corpus and is refused here: see chars_tokenizer.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word, const std::string& end_name = {},
                                          SpecialTokens reading = SpecialTokens::special);

/// Whether a folder, which may be absent, has the files of a tokenizer that make_tokenizer takes. Local.
bool holds_tokenizer(const Path& folder);

/// The files that save_tokenizer writes: those of the tokenizer, and its chat templates. Pure.
std::vector<TokenizerFile> saved_files(const Tokenizer& tokenizer);
/// Writes the tokenizer's files into the folder, which is made. Throws Error(storage).
void save_tokenizer(const Tokenizer& tokenizer, const Path& folder);
/// The tokenizer of a plug-in that save_tokenizer left in the folder; null if none did. Throws Error(input) if the
/// plug-in is not open, or gives other ids now.
std::unique_ptr<Tokenizer> load_plugin_tokenizer(const Path& folder);
/// The tokenizer that save_tokenizer, or Hugging Face, left in the folder. Throws as file_tokenizer does, and as
/// load_plugin_tokenizer.
std::unique_ptr<Tokenizer> load_tokenizer(const Path& folder);
/// Its end-of-text, for which no plug-in has to be open. Throws otherwise as load_tokenizer does.
std::optional<std::int32_t> end_of_text_in(const Path& folder);

}  // namespace lockstep
