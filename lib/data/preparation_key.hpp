// The key of a dataset that is made of text: a hash of everything that decides its bytes. A dataset with the key of
// what is to be prepared need not be made again.
#pragma once

#include "base/hash.hpp"
#include "config/prepare_config.hpp"
#include "corpus/input_files.hpp"
#include "corpus/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Of the tokenizer, of every option of preparation that is not as built in, of the format of messages
/// (message_format_hash), and of the files in their order: what they hold counts, not their names. `tokenizer`: null
/// where it is made of the text itself. `sums`: of whole files (data/input_contents.hpp). The same on any number of
/// ranks and threads. Pure.
Hash128 preparation_key(const PrepareDataOptions& options, const Tokenizer* tokenizer, const std::string& messages,
                        const std::vector<InputFile>& files, const std::vector<std::uint64_t>& sums);

/// A word as a shell takes it. Pure.
std::string quoted_word(const std::string& word);

/// The options among them that are not as built in, as words of a command line: "--data.validation tail:0.1". Pure.
std::string changed_options(const PrepareDataOptions& options);

/// Throws Error(input): what config.text() names is not prepared, with the command that would make it as config.output.
[[noreturn]] void refuse_unprepared(const PrepareConfig& config);

}  // namespace lockstep
