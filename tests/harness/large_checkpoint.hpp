// Checkpoints of thousands of ranks without their elements: manifest and index as a save would write them, and the
// table of a part. Tests and benchmarks measure the size and speed of these files without storage for the rest.
#pragma once

#include "base/hash.hpp"
#include "base/rounding.hpp"
#include "store/checkpoint_index.hpp"
#include "store/manifest.hpp"
#include "store/part_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <string>
#include <vector>

namespace lockstep::test {

/// The ranks, and how tensors are cut: rows over `rows_over`, the parallel dimension of a matrix over tp, layers over
/// pp.
struct LargeJob {
  Mesh mesh;
  int tensor_parallel = 1;
  int stages = 1;
  std::vector<AxisName> rows_over = {};
};
inline LargeJob tp_by_fsdp(int tp, int fsdp) {
  return {make_mesh("world", {{"dp_shard", fsdp}, {"tp", tp}}), tp, 1, {"dp_shard"}};
}
inline LargeJob pp_by_dp(int pp, int dp) { return {make_mesh("world", {{"pp", pp}, {"dp_replicate", dp}}), 1, pp, {}}; }

constexpr int ranks_of_a_node = 8;

namespace large {

struct Matrix {
  const char* name;
  Shape shape;
  int tp_dim;  // -1: not cut over tp
};

inline const std::vector<Matrix>& matrices_of_a_layer() {  // Llama-3 405B
  static const std::vector<Matrix> matrices{
      {"input_layernorm.weight", {16384}, -1},        {"self_attn.q_proj.weight", {16384, 16384}, 0},
      {"self_attn.k_proj.weight", {1024, 16384}, 0},  {"self_attn.v_proj.weight", {1024, 16384}, 0},
      {"self_attn.o_proj.weight", {16384, 16384}, 1}, {"post_attention_layernorm.weight", {16384}, -1},
      {"mlp.gate_proj.weight", {53248, 16384}, 0},    {"mlp.up_proj.weight", {53248, 16384}, 0},
      {"mlp.down_proj.weight", {16384, 53248}, 1}};
  return matrices;
}

}  // namespace large

/// A manifest as a save would write it: weights and two moments of `tensors` / 3 matrices, in parts of ranks_of_a_part
/// ranks. Fingerprints are a function of the names and of `step`, independent of the job: equal states have equal
/// fingerprints.
inline Manifest large_manifest(const LargeJob& job, std::size_t tensors, std::int64_t step,
                               int ranks_of_a_part = ranks_of_a_node) {
  Manifest manifest;
  manifest.step = step;
  manifest.uuid = "00000000-0000-4000-8000-000000000000";
  manifest.created = "2026-01-01T00:00:00Z";
  manifest.software = "lockstep test";
  manifest.mesh = job.mesh;
  manifest.components = {{.key = "model"}, {.key = "optimizer"}};
  const int ranks = world_size(job.mesh), parts = ranks / ranks_of_a_part;
  for (int node = 0; node < ranks / ranks_of_a_node; ++node) {
    manifest.nodes.push_back({fmt::format("node{:05}", node), {}});
    for (int rank = 0; rank < ranks_of_a_node; ++rank)
      manifest.nodes.back().ranks.push_back(node * ranks_of_a_node + rank);
  }
  for (int part = 0; part < parts; ++part) {
    StoredFile file{.path = fmt::format("replicated/{:04}/part-{:04}.h5", part / 512, part),
                    .bytes = (std::uint64_t{4} << 30) + static_cast<std::uint64_t>(part),
                    .hash = hash128(fmt::format("part {}", part)),
                    .table_hash = hash128(fmt::format("table {}", part))};
    for (int rank = 0; rank < ranks_of_a_part; ++rank) file.writers.push_back(part * ranks_of_a_part + rank);
    for (std::size_t column = 0; column < file.table.size(); ++column) file.table[column] = {4096 * (column + 1), 4000};
    manifest.files.push_back(std::move(file));
  }
  const auto& matrices = large::matrices_of_a_layer();
  const std::size_t layers = ceil_div(static_cast<std::int64_t>(tensors), std::ssize(matrices) * 3);
  for (const char* const prefix : {"model/", "optimizer/exp_avg/", "optimizer/exp_avg_sq/"}) {
    for (std::size_t i = 0; i < tensors / 3; ++i) {
      const large::Matrix& matrix = matrices[i % matrices.size()];
      const std::size_t layer = i / matrices.size();
      const std::string full = fmt::format("{}model.layers.{}.{}", prefix, layer, matrix.name);
      Layout layout{.global = matrix.shape, .dtype = DType::f32, .mesh = job.mesh, .splits = {}, .pins = {}};
      if (job.tensor_parallel > 1 && matrix.tp_dim >= 0) layout.splits.push_back({{"tp"}, matrix.tp_dim});
      if (!job.rows_over.empty()) layout.splits.push_back({job.rows_over, 0});
      StoredTensor tensor;
      tensor.component = full.substr(0, full.find('/'));
      tensor.name = full.substr(full.find('/') + 1);
      const Hash128 content = hash128(fmt::format("{} {}", full, step));
      tensor.fingerprint = {content.high, content.low};
      tensor.by_layout = true;
      const auto all_files = static_cast<std::size_t>(parts);
      tensor.files = {{0, all_files}};
      if (job.stages > 1) {  // ranks of a stage are consecutive, and so are its parts
        const std::size_t stage = layer * static_cast<std::size_t>(job.stages) / layers;
        layout.pins.push_back({"pp", {static_cast<int>(stage)}});
        const std::size_t first = stage * all_files / static_cast<std::size_t>(job.stages);
        const std::size_t end = (stage + 1) * all_files / static_cast<std::size_t>(job.stages) + 1;
        tensor.files = {{first, std::min(end, all_files) - first}};
      }
      tensor.layout = std::move(layout);
      manifest.tensors.push_back(std::move(tensor));
    }
  }
  manifest.state_digest = state_digest(manifest.tensors);
  return manifest;
}

/// Writes INDEX.h5 and MANIFEST.json into an existing folder. Returns the bytes of INDEX.h5.
inline std::uint64_t write_large(const Path& folder, Manifest manifest) {
  write_index(folder / index_file, manifest);
  const std::string content = read_file(folder / index_file);
  manifest.files.push_back({.path = std::string(index_file), .bytes = content.size(), .hash = hash128(content)});
  publish_file(folder / manifest_file, manifest_text(manifest));
  return content.size();
}

/// The table of the first node's part for tp_by_fsdp, with eight ranks along tp: the boxes of each tensor.
inline PartTable large_table(const Manifest& manifest) {
  PartTable table;
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Rank rank : manifest.files.front().writers) {
      const Box box = box_of(tensor.layout, rank);
      if (empty(box)) continue;
      table.pieces.push_back({full_name(tensor), tensor.layout.global, tensor.layout.dtype, box});
      PieceRecord record{.offset = 4096 * (table.pieces.size() + 1000)};
      const std::uint64_t blocks = (bytes_of(table.pieces.back()) + block_bytes - 1) / block_bytes;
      record.blocks.resize(blocks, hash128(tensor.name));
      table.records.push_back(std::move(record));
    }
  }
  return table;
}

}  // namespace lockstep::test
