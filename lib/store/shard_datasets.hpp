// The names of the datasets in a token shard, for its reader (store/token_shards.cpp) and its writer
// (store/shard_writer.cpp).
#pragma once

namespace lockstep {

inline constexpr const char* shard_tokens_path = "/tokens";
inline constexpr const char* shard_documents_path = "/documents";
inline constexpr const char* shard_mask_path = "/mask";

}  // namespace lockstep
