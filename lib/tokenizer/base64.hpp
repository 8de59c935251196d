// Decodes base64, which files of tokenizers contain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The decoded bytes; nothing if `text` is not base64 with its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lockstep
