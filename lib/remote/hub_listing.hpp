// Lists of a dataset's files as text: the answer of the hub, and the form in the cache.
#pragma once

#include "remote/hub_files.hpp"

#include <string>

namespace lockstep {

/// Parses the hub's answer for a revision. Local, pure. Throws Error(input) for other texts, and for names that lead
/// out of a folder.
HubListing hub_listing(const std::string& answer, const std::string& origin);

/// Convert a listing to the text in the cache and back. kept_listing throws as hub_listing does.
std::string text_of(const HubListing& listing);
HubListing kept_listing(const std::string& text, const std::string& commit, const std::string& origin);

}  // namespace lockstep
