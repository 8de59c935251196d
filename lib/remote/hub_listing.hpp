// The files of a dataset as text: as the hub answers, and as the cache keeps it.
#pragma once

#include "remote/hub_files.hpp"

#include <string>

namespace lockstep {

/// What the hub answers for a revision. Local, pure. Throws Error(input) for other texts, and for names that lead out
/// of a folder.
HubListing hub_listing(const std::string& answer, const std::string& origin);

/// What the cache keeps of it, and back, which throws the same.
std::string text_of(const HubListing& listing);
HubListing kept_listing(const std::string& text, const std::string& commit, const std::string& origin);

}  // namespace lockstep
