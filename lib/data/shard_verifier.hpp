// Compares the shards of a run with their recorded hashes during training, each once, on a thread of its own. Of the
// ranks that see the same files, one checks each shard. The shards that a step reads: data/data_loader.hpp.
#pragma once

#include "comm/session.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <memory>

namespace lockstep {

class ShardVerifier {
 public:
  /// Checks nothing, for a run that does not verify its data.
  ShardVerifier();
  /// This rank checks every parts-th shard, beginning with shard `part`. Local.
  ShardVerifier(int part, int parts);
  /// Ends the check in progress and drops waiting shards.
  ~ShardVerifier();
  ShardVerifier(const ShardVerifier&) = delete;
  ShardVerifier& operator=(const ShardVerifier&) = delete;

  /// Adds the shards with tokens [begin, end) of `stream` to the ones in use; `stream` must outlive the verifier. All
  /// ranks make equal calls. Local, cheap.
  void use(const TokenStream& stream, std::int64_t begin, std::int64_t end);
  bool uses_all(const TokenStream& stream) const;  // whether all its shards are in use. Local
  /// Throws the first problem found so far in a shard of this rank: Error(input) naming it, Error(storage). Local.
  void check() const;
  /// Waits until all shards in use have been checked, on all ranks. Collective over the session's world. Throws
  /// AgreedError.
  void settle(Session& session);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
