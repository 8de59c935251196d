// How special tokens that are spelled out in a document are encoded: data.special_tokens. It has a header of its own,
// so that corpus/ includes no configuration.
#pragma once

namespace lockstep {

enum class SpecialTokens {
  special,  // as the id of the token
  text,     // as ordinary text
};

}  // namespace lockstep
