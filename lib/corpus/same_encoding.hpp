// Whether two tokenizers are one by what they do: their files may be written differently.
#pragma once

#include "corpus/tokenizer.hpp"

namespace lockstep {

/// Whether an id has the same meaning in both, and texts get the same ids: compares the text of each id, the ids of
/// special tokens by their names, and the ids of a text that has all tokens of both and characters that normalizers and
/// pre-tokenizers treat differently. Tokens that only one of them has, at the end of its vocabulary, count only as far
/// as such texts show them. Local.
bool same_encoding(const Tokenizer& first, const Tokenizer& second);

}  // namespace lockstep
