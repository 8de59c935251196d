// Finds documents that occur more than once in a corpus. Each rank has the hashes of its own documents. Equal hashes
// are sent to one rank, chosen by the hash, so that the ranks have about equal work.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "comm/session.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// HashedDocument is a document, or the part of one that this rank holds. All parts of a document have equal values of
/// the three fields.
struct HashedDocument {
  Hash128 hash;
  std::uint64_t rank = 0;     // the rank on which the document begins
  std::uint64_t ordinal = 0;  // position among the documents of that rank, in the order of the corpus
};

/// Returns, for each of `documents`, whether an equal one comes earlier in the corpus. `folder` is for temporary files;
/// all ranks see it. Collective over the session's world. Throws Error(storage).
std::vector<bool> find_duplicates(Session& session, const Path& folder, const std::vector<HashedDocument>& documents);

}  // namespace lockstep
