// The key of a dataset made from text: a hash of everything that decides its bytes. An existing dataset with the wanted
// key is reused. The lookup: prepare/prepared_lookup.hpp.
#pragma once

#include "base/hash.hpp"
#include "config/prepare_config.hpp"
#include "readers/input_files.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the hash of the tokenizer, of all preparation options that differ from their defaults, of the message format
/// (message_format_hash), and of the files in their order: their contents and forms, not their names. `tokenizer`: null
/// if it is made from the text itself. `sums`: of whole files (prepare/input_contents.hpp). Independent of the numbers
/// of ranks and threads. Pure.
Hash128 preparation_key(const PrepareDataOptions& options, const Tokenizer* tokenizer, const std::string& messages,
                        const std::vector<InputFile>& files, const std::vector<std::uint64_t>& sums);

/// Returns a word quoted for a shell. Pure.
std::string quoted_word(const std::string& word);

/// Returns the options that differ from their defaults, as words of a command line: "--data.validation tail:0.1". Pure.
std::string changed_options(const PrepareDataOptions& options);

/// Throws Error(input): the files of config.text() are not prepared. The hint is the command that prepares them into
/// config.output.
[[noreturn]] void refuse_unprepared(const PrepareConfig& config);

}  // namespace lockstep
