// Trials of the kernels of embeddings, norms, activations, dropout and biases.
#include "trial/trials.hpp"

#include <fmt/format.h>

namespace lockstep::trial {

namespace {

template <class T>
void describe_rows(KernelCall<T>& call, std::int64_t rows, std::int64_t columns, std::int64_t terms,
                   std::string_view form = "") {
  call.facts.shape = fmt::format("{}x{}{}", rows, columns, form);
  call.facts.terms = terms;
}

template <class T>
const T* bias_of_mlp(KernelCall<T>& call, const TrialSizes& sizes) {
  return sizes.model.mlp_bias ? call.in(stored, "bias", sizes.model.feed_forward) : nullptr;
}

/// The gated MLPs of a model, as variants: its dense MLPs, its experts, and its shared expert, which has a gate for
/// each row.
enum GatedMlp { dense_mlp, expert_mlp, shared_mlp };
std::int64_t gated_columns(const TrialSizes& sizes, int mlp) {
  const ModelConfig& model = sizes.model;
  const std::int64_t dense = model.expert_layers(model.layers) < model.layers ? model.feed_forward : 0;
  return mlp == dense_mlp ? dense : mlp == expert_mlp ? model.experts.feed_forward : model.experts.shared_feed_forward;
}

std::vector<TrialSizes> gated_mlps(const TrialSizes& sizes) {
  std::vector<TrialSizes> cases;
  for (const int mlp : {dense_mlp, expert_mlp, shared_mlp}) {
    if (gated_columns(sizes, mlp) == 0) continue;
    cases.push_back(sizes);
    cases.back().variant = mlp;
  }
  return cases;
}

template <class T>
const T* row_gates(KernelCall<T>& call, const TrialSizes& sizes) {
  return sizes.variant == shared_mlp ? call.in(stored, "row_gates", sizes.rows) : nullptr;
}

template <class T>
const Place* row_places(KernelCall<T>& call, const TrialSizes& sizes) {
  return call.in(index64, "places of rows", sizes.rows, given(sizes.places()));
}

DropoutMask mask_of(DropoutSite site) { return dropout_mask(0.25, 7, 3, 2, site); }

/// Rows of a table, some of them negative.
Draw indices_below(std::int64_t entries, bool has_absent) {
  return [=](const RandomStream& stream, std::uint64_t i) {
    return has_absent && i % 7 == 3 ? -1.0 : static_cast<double>(stream.below(i, static_cast<std::uint64_t>(entries)));
  };
}

}  // namespace

std::vector<Trial> block_trials() {
  return {
      make_trial("round_to",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent all{sizes.rows * sizes.model.channels};
                   describe_rows(call, 1, all.count(), 1);
                   call(&Kernels<T>::round_to, call.in(wide, "x", all), all.count(), call.out(stored, "y", all));
                 }),
      make_trial("column_sums",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const std::int64_t columns = sizes.model.channels, stride = columns + (sizes.has_odd_parts ? 4 : 0);
                   describe_rows(call, sizes.rows, columns, sizes.rows);
                   call(&Kernels<T>::column_sums, call.in(stored, "values", {sizes.rows, columns, stride}), sizes.rows,
                        columns, stride, 1.0, call.updated(wide, "target", columns));
                 }),
      make_trial(
          "embedding_forward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const std::int64_t entries = sizes.model.vocabulary, columns = sizes.model.channels;
            const bool adds = sizes.variant == 1;
            const Extent rows{sizes.rows, columns};
            describe_rows(call, sizes.rows, columns, 2, adds ? " added" : "");
            call.facts.moved = rows.count() * static_cast<std::int64_t>(sizeof(T) + (adds ? 2 : 1) * sizeof(Math<T>));
            call(&Kernels<T>::embedding_forward, call.in(stored, "table", {entries, columns}),
                 call.in(index32, "indices", sizes.rows, indices_below(entries, sizes.has_odd_parts)), sizes.rows,
                 columns, adds ? StoreMode::add : StoreMode::overwrite,
                 adds ? call.updated(wide, "y", rows) : call.out(wide, "y", rows));
          },
          variants<2>),
      make_trial(
          "embedding_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const std::int64_t entries = sizes.model.vocabulary, columns = sizes.model.channels;
            const bool adds = sizes.variant == 1;
            const Extent table{entries, columns};
            describe_rows(call, sizes.rows, columns, sizes.rows, adds ? " added" : "");
            call(&Kernels<T>::embedding_backward, call.in(wide, "dy", {sizes.rows, columns}),
                 call.in(index32, "indices", sizes.rows, indices_below(entries, sizes.has_odd_parts)), sizes.rows,
                 columns, entries, adds ? 1.0 : 0.0,
                 adds ? call.updated(wide, "dtable", table) : call.out(wide, "dtable", table));
          },
          variants<2>),
      make_trial("indices_of_part",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const std::int64_t entries = sizes.model.vocabulary, first = entries / 3;
                   describe_rows(call, 1, sizes.rows, 1);
                   call(&Kernels<T>::indices_of_part,
                        call.in(index32, "indices", sizes.rows, indices_below(entries, sizes.has_odd_parts)),
                        sizes.rows, static_cast<std::int32_t>(first), static_cast<std::int32_t>(entries / 2),
                        call.out(index32, "own", sizes.rows));
                 }),
      make_trial("activation_forward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent rows{sizes.rows, sizes.model.feed_forward};
                   describe_rows(call, rows.rows, rows.columns, 1);
                   call(&Kernels<T>::activation_forward, sizes.model.activation, call.in(stored, "u", rows),
                        bias_of_mlp(call, sizes), rows.rows, rows.columns, call.out(stored, "y", rows));
                 }),
      make_trial("activation_backward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent rows{sizes.rows, sizes.model.feed_forward};
                   describe_rows(call, rows.rows, rows.columns, 1);
                   call(&Kernels<T>::activation_backward, sizes.model.activation, call.in(stored, "dy", rows),
                        call.in(stored, "u", rows), bias_of_mlp(call, sizes), rows.rows, rows.columns,
                        call.out(stored, "du", rows));
                 }),
      make_trial(
          "gated_forward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const std::int64_t columns = gated_columns(sizes, sizes.variant);
            describe_rows(call, sizes.rows, columns, 1);
            call(&Kernels<T>::gated_forward, sizes.model.activation,
                 call.in(stored, "gate_up", {sizes.rows, 2 * columns}), row_gates(call, sizes), sizes.rows, columns,
                 call.out(stored, "y", {sizes.rows, columns}));
          },
          gated_mlps),
      make_trial(
          "gated_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const std::int64_t columns = gated_columns(sizes, sizes.variant);
            describe_rows(call, sizes.rows, columns, columns);
            call(&Kernels<T>::gated_backward, sizes.model.activation, call.in(stored, "dy", {sizes.rows, columns}),
                 call.in(stored, "gate_up", {sizes.rows, 2 * columns}), row_gates(call, sizes), sizes.rows, columns,
                 call.out(stored, "dgate_up", {sizes.rows, 2 * columns}),
                 sizes.variant == shared_mlp ? call.out(stored, "drow_gates", sizes.rows) : nullptr);
          },
          gated_mlps),
      make_trial("layer_norm_forward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent rows{sizes.rows, sizes.model.channels};
                   describe_rows(call, rows.rows, rows.columns, rows.columns);
                   call(&Kernels<T>::layer_norm_forward, call.in(wide, "x", rows, normal(1, 0.5)),
                        call.in(stored, "weight", rows.columns), call.in(stored, "bias", rows.columns),
                        sizes.model.norm_eps, rows.rows, rows.columns, call.out(stored, "y", rows),
                        call.out(wide, "mean", rows.rows), call.out(wide, "rstd", rows.rows));
                 }),
      make_trial(
          "layer_norm_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Extent rows{sizes.rows, sizes.model.channels};
            const bool adds = sizes.variant == 0;
            const double beta = adds ? 1 : 0;
            const auto weights = [&](std::string_view name) {
              return adds ? call.updated(wide, name, rows.columns) : call.out(wide, name, rows.columns);
            };
            describe_rows(call, rows.rows, rows.columns, std::max(rows.rows, rows.columns), adds ? " added" : "");
            call(&Kernels<T>::layer_norm_backward, call.in(stored, "dy", rows),
                 call.in(wide, "x", rows, normal(1, 0.5)), call.in(stored, "weight", rows.columns),
                 call.in(wide, "mean", rows.rows, result_of("layer_norm_forward", constant(0.5))),
                 call.in(wide, "rstd", rows.rows, result_of("layer_norm_forward", constant(1))),
                 adds ? call.in(wide, "residual", rows) : nullptr, rows.rows, rows.columns, call.out(wide, "dx", rows),
                 weights("dweight"), beta, weights("dbias"), beta);
          },
          variants<2>),
      make_trial("rms_norm_forward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent rows{sizes.rows, sizes.model.channels};
                   describe_rows(call, rows.rows, rows.columns, rows.columns);
                   call(&Kernels<T>::rms_norm_forward, call.in(wide, "x", rows),
                        call.in(stored, "weight", rows.columns), sizes.model.norm_eps, rows.rows, rows.columns,
                        call.out(stored, "y", rows), call.out(wide, "rstd", rows.rows));
                 }),
      make_trial(
          "rms_norm_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Extent rows{sizes.rows, sizes.model.channels};
            const bool adds = sizes.variant == 0;
            describe_rows(call, rows.rows, rows.columns, std::max(rows.rows, rows.columns), adds ? " added" : "");
            call(&Kernels<T>::rms_norm_backward, call.in(stored, "dy", rows), call.in(wide, "x", rows),
                 call.in(stored, "weight", rows.columns),
                 call.in(wide, "rstd", rows.rows, result_of("rms_norm_forward", constant(1))),
                 adds ? call.in(wide, "residual", rows) : nullptr, rows.rows, rows.columns, call.out(wide, "dx", rows),
                 adds ? call.updated(wide, "dweight", rows.columns) : call.out(wide, "dweight", rows.columns),
                 adds ? 1.0 : 0.0);
          },
          variants<2>),
      make_trial(
          "dropout_add",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Extent rows{sizes.rows, sizes.model.channels};
            const bool has_bias = sizes.variant == 0;
            describe_rows(call, rows.rows, rows.columns, 2, has_bias ? "" : " without bias");
            call(&Kernels<T>::dropout_add, mask_of(DropoutSite::mlp_output), row_places(call, sizes), rows.rows,
                 rows.columns, call.in(wide, "base", rows), has_bias ? call.in(stored, "bias", rows.columns) : nullptr,
                 call.updated(wide, "y", rows));
          },
          variants<2>),
      make_trial(
          "dropout",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Extent rows{sizes.rows, sizes.model.channels};
            describe_rows(call, rows.rows, rows.columns, 1);
            const auto [from, to] = read_and_written(call, sizes, "x", "y", rows);
            call(&Kernels<T>::dropout, mask_of(DropoutSite::embedding), row_places(call, sizes), rows.rows,
                 rows.columns, from, to);
          },
          in_place_too),
  };
}

}  // namespace lockstep::trial
