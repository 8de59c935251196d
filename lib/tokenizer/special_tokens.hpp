// How special tokens that are spelled out in a document are encoded: data.special_tokens.
#pragma once

namespace lockstep {

enum class SpecialTokens {
  special,  // as the id of the token
  text,     // as ordinary text
};

}  // namespace lockstep
