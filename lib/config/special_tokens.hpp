// How special tokens that a document spells out are read: data.special_tokens. Apart from the options, so that corpus/
// sees no configuration.
#pragma once

namespace lockstep {

enum class SpecialTokens {
  special,  // as the token itself
  text,     // as any other text
};

}  // namespace lockstep
