// The hashes of the files in RUN/tokenizer, which belong to the checkpoints of the run. Each manifest holds them as a
// document.
#pragma once

#include "store/checkpoint_verify.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr std::string_view tokenizer_document = "tokenizer";

/// Returns the text of the document for files given by name and content. Pure.
std::string tokenizer_record(const std::vector<std::pair<std::string, std::string>>& files);

/// Returns the files of RUN/tokenizer that differ from the files at the save of RUN/checkpoints/step-N. There are none
/// if the manifest has no such document (an older checkpoint), or no folder RUN/tokenizer exists (a copied checkpoint).
/// Throws as read_manifest does, never for the state of the files. Local.
std::vector<Defect> tokenizer_defects(const Path& checkpoint);

}  // namespace lockstep
