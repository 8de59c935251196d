// Recognises the content of a file that is not UTF-8 text by its first bytes, for the error message that refuses the
// file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct ForeignContent {
  const char* what;    // "UTF-16 text"
  const char* advice;  // how to make it readable
};

/// Recognises content by `begin`, the first decompressed bytes of a file. Nothing for UTF-8 and for unknown bytes.
/// Pure.
std::optional<ForeignContent> foreign_content(std::string_view begin);

/// Throws Error(input) naming the file if foreign_content recognises its first bytes. Local.
void refuse_foreign_content(std::string_view begin, const std::string& file);

}  // namespace lockstep
