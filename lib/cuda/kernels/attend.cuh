// Forward of attention: a block has a tile of queries of one head. Backward: cuda/kernels/attend_backward.cuh.
#pragma once

#include "cuda/kernels/attention_call.cuh"
#include "cuda/kernels/reductions.cuh"

#include <cstdint>
#include <limits>

namespace lockstep::cuda {

/// The results of forward. A step of a ring adds to sums (H, N, D) of `rows` rows; else y is set.
template <class M>
struct AttentionResults {
  StoredValues<M> y;
  M* sums;
  std::int64_t rows;
  M* log_sums;
};

/// One value of earlier steps of a ring and of this one, as weights of their results.
template <class M>
struct RingWeights {
  M before, added, log_sum;

  __device__ RingWeights(M earlier, M own) {
    const M largest = own > earlier ? own : earlier;
    log_sum = largest + log(exp(earlier - largest) + exp(own - largest));
    before = exp(earlier - log_sum);
    added = exp(own - log_sum);
  }
};

template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend(AttentionCall<M> call, std::int64_t tiles, AttentionResults<M> results) {
  constexpr int side = tile_side * R;
  constexpr M nothing = -std::numeric_limits<M>::infinity();
  const std::int64_t heads = call.shape.heads, head = blockIdx.x % heads,
                     kv_head = head / (heads / call.shape.kv_heads);
  // Late tiles, which see most keys, first.
  const TilePlace place(call.query_parts, call.query_tiles, tiles - 1 - blockIdx.x / heads, side);
  if (place.count == 0) return;
  const int size = call.size();
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M* const queries = shared;
  M* const keys = queries + row_tile_size<M, R>(size);  // then values
  M* const scores = keys + row_tile_size<M, R>(size);
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const TileRows own_rows{place.row, place.index, place.count};
  load_tile<R>(call.query_rows(own_rows, head), queries);
  M sums[R][C] = {}, largest[R], totals[R] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) largest[i] = nothing;
  const auto visit = [&](const TileRows& seen) {
    const TilePair pair{own_rows, seen, call.shape.window};
    load_tile<R>(call.key_rows(seen, kv_head), keys);
    if (call.dropout.drops()) bits.draw(call.dropout, pair, head);
    __syncthreads();
    M own[R][R];
    score_tiles<R>(queries, keys, size, own);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() + tile_side * i;
      M most = largest[i];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        if (!pair.sees(row, tile_column() + tile_side * j)) own[i][j] = nothing;
        most = own[i][j] > most ? own[i][j] : most;
      }
      most = warp_max(most, tile_side);
      const M change = largest[i] == most ? M{1} : exp(largest[i] - most);
      largest[i] = most;
      M total = 0;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        own[i][j] = own[i][j] == nothing ? M{0} : exp(own[i][j] - most);
        total += own[i][j];
        if (call.dropout.drops())
          own[i][j] *= bits.template factor<M>(call.dropout, pair, row, tile_column() + tile_side * j);
      }
      totals[i] = totals[i] * change + warp_sum(total, tile_side);
#pragma unroll
      for (int j = 0; j < C; ++j) sums[i][j] *= change;
    }
    share_scores<R>(own, scores);
    __syncthreads();  // the keys are no longer read
    load_tile<R>(call.value_rows(seen, kv_head), keys);
    __syncthreads();
    combine_tiles<false, R, C>(scores, keys, size, sums);
    __syncthreads();
  };
  over_tiles(call.key_parts, place.segment, call.first_key(place), place.index + place.count, side, visit);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = tile_row() + tile_side * i;
    const std::int64_t token = place.row + row;
    M* const log_sum = results.log_sums + token * heads + head;
    const bool adds = results.sums != nullptr, sees = row < place.count && totals[i] != 0;  // a key of this step
    const M earlier = adds && sees ? *log_sum : nothing, own = largest[i] + log(totals[i]);
    __syncwarp();  // all threads of the row have read the old sum
    if (!sees) continue;
    const RingWeights<M> weights(earlier, own);
    if (tile_column() == 0) *log_sum = adds ? weights.log_sum : own;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (column >= size) continue;
      const M result = sums[i][j] / totals[i];
      if (adds) {
        M& target = results.sums[(head * results.rows + token) * size + column];
        target = weights.before * target + weights.added * result;
      } else {
        results.y.set((token * heads + head) * size + column, result);
      }
    }
  }
}

}  // namespace lockstep::cuda
