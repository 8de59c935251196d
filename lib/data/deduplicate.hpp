// Which documents of a corpus are there twice. A rank has the hashes of its own documents; those of equal value meet on
// one rank, which that value chooses, so that each holds about its part of all.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "comm/session.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// A document, or a part of one on this rank: parts of one document have all three alike.
struct HashedDocument {
  Hash128 hash;
  std::uint64_t rank = 0;     // on which it begins
  std::uint64_t ordinal = 0;  // among those, in the order of the corpus
};

/// Whether a document that equals `documents[i]` stands before it in the corpus. `folder`: for files that do not last,
/// which all ranks see. Collective over the session's world. Throws Error(storage).
std::vector<bool> find_duplicates(Session& session, const Path& folder, const std::vector<HashedDocument>& documents);

}  // namespace lockstep
