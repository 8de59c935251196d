#include "reshard/made_from.hpp"

#include "base/json.hpp"
#include "store/staging.hpp"

#include <algorithm>

namespace lockstep {

void add_made_from(Manifest& manifest, std::string_view how, Json sources) {
  const Json line = {{"how", how}, {"of", std::move(sources)}, {"by", software_name()}};
  const auto named = [](const auto& document) { return document.first == made_from_document; };
  auto found = std::ranges::find_if(manifest.documents, named);
  if (found == manifest.documents.end())
    found = manifest.documents.insert(found, {std::string(made_from_document), {}});
  found->second += to_text(line) + "\n";
}

}  // namespace lockstep
