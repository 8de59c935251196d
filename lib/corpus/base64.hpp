// Bytes written as base64, as tokenizers' files have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The bytes; nothing if `text` is no base64 with its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lockstep
