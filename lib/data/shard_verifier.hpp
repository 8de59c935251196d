// Compares shards of a run with their hashes while training goes on, each once, on a thread of its own. A shard is
// checked by one rank of those that see the same files. Which shards a step reads: data/data_loader.hpp.
#pragma once

#include "comm/session.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <memory>

namespace lockstep {

class ShardVerifier {
 public:
  /// Checks nothing: of a run that does not verify its data.
  ShardVerifier();
  /// This rank checks every parts-th shard, from the part-th on. Local.
  ShardVerifier(int part, int parts);
  /// Gives up what is not checked yet.
  ~ShardVerifier();
  ShardVerifier(const ShardVerifier&) = delete;
  ShardVerifier& operator=(const ShardVerifier&) = delete;

  /// From now on the shards with tokens [begin, end) of `stream`, which outlives the verifier, are in use. All ranks
  /// say the same. Local, cheap.
  void use(const TokenStream& stream, std::int64_t begin, std::int64_t end);
  bool uses_all(const TokenStream& stream) const;  // Local
  /// Throws what is known to be wrong with a shard of this rank: Error(input) naming it, Error(storage). Local.
  void check() const;
  /// Waits until all shards in use have been checked, on all ranks. Collective over the session's world; throws
  /// AgreedError.
  void settle(Session& session);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
