// Compares two tokenizers by their ids, because their files may be written differently.
#pragma once

#include "tokenizer/tokenizer.hpp"

namespace lockstep {

/// Whether ids have the same meaning in both and texts get the same ids. Compares the text of each id, the ids of
/// special tokens by name, and the ids of test texts. These contain all tokens of both tokenizers and characters that
/// normalizers and pre-tokenizers treat differently. Additional tokens at the end of one vocabulary count only if they
/// change the ids of these texts. Local.
bool same_encoding(const Tokenizer& first, const Tokenizer& second);

}  // namespace lockstep
