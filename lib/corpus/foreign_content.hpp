// What a file that is no UTF-8 text holds, by its first bytes, so that its refusal can say so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct ForeignContent {
  const char* what;    // "UTF-16 text"
  const char* advice;  // how to make it readable
};

/// `begin`: the first bytes of a file, decompressed. Nothing for UTF-8 and for bytes that tell nothing. Pure.
std::optional<ForeignContent> foreign_content(std::string_view begin);

/// Throws Error(input) naming the file for bytes that tell what it is. Local.
void refuse_foreign_content(std::string_view begin, const std::string& file);

}  // namespace lockstep
