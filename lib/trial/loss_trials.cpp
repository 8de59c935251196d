// Trials of the kernels of the loss, and of the sums and statistics of a step.
#include "trial/trials.hpp"

#include <fmt/format.h>

namespace lockstep::trial {

namespace {

constexpr std::int64_t sharing_ranks = 3;  // of a vocabulary-parallel loss
constexpr std::int64_t numbers_a_row = 3;  // of RowStatistics
static_assert(sizeof(RowStatistics) == numbers_a_row * sizeof(double));

TargetDistribution target_of(const TrialSizes& sizes) {
  return {sizes.smoothing / static_cast<double>(sizes.model.vocabulary), 1 - sizes.smoothing};
}

/// A token for each row. In small sizes some rows have no label.
template <class T>
const std::int32_t* labels(KernelCall<T>& call, const TrialSizes& sizes) {
  const auto vocabulary = static_cast<std::uint64_t>(sizes.model.vocabulary);
  const bool masks = sizes.has_odd_parts;
  return call.in(index32, "labels", sizes.loss_rows, Draw([=](const RandomStream& stream, std::uint64_t i) {
                   if (masks && i % 5 == 2) return i % 2 == 0 ? -1.0 : -100.0;
                   return static_cast<double>(stream.below(i, vocabulary));
                 }));
}

/// The rows of a slice of logits.
LogitRows rows_of(const TrialSizes& sizes) { return {sizes.loss_rows, sizes.model.vocabulary, sizes.columns}; }

/// Their extent in memory, and what a call says of them.
template <class T>
Extent described_logits(KernelCall<T>& call, const TrialSizes& sizes) {
  const Extent rows{sizes.loss_rows, sizes.columns};
  call.facts.shape = fmt::format("{}x{}", rows.rows, rows.columns);
  call.facts.terms = rows.columns;
  return rows;
}
Draw of_logits() { return normal(2); }
template <class T>
const Math<T>* logits(KernelCall<T>& call, const TrialSizes& sizes) {
  return call.in(wide, "logits", described_logits(call, sizes), of_logits());
}
/// The logits and their derivative, which may take their place.
template <class T>
ReadAndWritten<T> logits_and_derivative(KernelCall<T>& call, const TrialSizes& sizes) {
  return read_and_written(call, sizes, "logits", "derivative", described_logits(call, sizes), of_logits());
}

template <class T>
void describe_elements(KernelCall<T>& call, std::int64_t count, std::string_view form = "") {
  call.facts.shape = fmt::format("{}{}", count, form);
  call.facts.terms = count;
}

}  // namespace

std::vector<Trial> loss_trials() {
  return {
      make_trial(
          "cross_entropy",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const auto [from, to] = logits_and_derivative(call, sizes);
            call(&Kernels<T>::cross_entropy, from, labels(call, sizes), rows_of(sizes), target_of(sizes),
                 call.out(real, "losses", sizes.loss_rows), to);
          },
          in_place_too),
      make_trial("cross_entropy_loss",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const std::int64_t rows = sizes.loss_rows;
                   call(&Kernels<T>::cross_entropy_loss, logits(call, sizes), labels(call, sizes), rows_of(sizes),
                        target_of(sizes), call.out(real, "losses", rows), call.out(real, "correct", rows));
                 }),
      make_trial(
          "row_statistics",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            call(&Kernels<T>::row_statistics, logits(call, sizes), labels(call, sizes), rows_of(sizes),
                 sizes.model.vocabulary / 3, target_of(sizes),
                 reinterpret_cast<RowStatistics*>(call.out(real, "statistics", {sizes.loss_rows, numbers_a_row})));
          }),
      make_trial(
          "combine_statistics",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const std::int64_t rows = sizes.loss_rows;
            const bool counts = sizes.variant == 0;
            describe_elements(call, rows, counts ? "" : " without hits");
            call(&Kernels<T>::combine_statistics,
                 reinterpret_cast<const RowStatistics*>(
                     call.in(real, "of_ranks", {sharing_ranks * rows, numbers_a_row}, uniform(1, 2))),
                 sharing_ranks, rows, labels(call, sizes), sizes.model.vocabulary,
                 reinterpret_cast<RowStatistics*>(call.out(real, "whole", {rows, numbers_a_row})),
                 call.out(real, "losses", rows), counts ? call.out(real, "correct", rows) : nullptr);
          },
          variants<2>),
      make_trial(
          "cross_entropy_derivative",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const auto [from, to] = logits_and_derivative(call, sizes);
            call(&Kernels<T>::cross_entropy_derivative, from, labels(call, sizes), rows_of(sizes),
                 sizes.model.vocabulary / 3, target_of(sizes),
                 reinterpret_cast<const RowStatistics*>(call.in(real, "statistics", {sizes.loss_rows, numbers_a_row},
                                                                result_of("row_statistics", uniform(1, 2)))),
                 to);
          },
          in_place_too),
      make_trial("sum_in_order",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_elements(call, sizes.rows);
                   call(&Kernels<T>::sum_in_order, call.in(real, "values", sizes.rows, uniform(0, 9)), sizes.rows,
                        call.out(real, "sum", 1));
                 }),
      make_trial(
          "add_value",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            call.facts.shape = sizes.variant == 0 ? "1" : "1 finite";
            call(&Kernels<T>::add_value, call.in(real, "value", 1), sizes.variant == 0,
                 call.updated(real, "sum", 1, uniform(1, 2)));
          },
          variants<2>),
      make_trial("add_square_sum",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_elements(call, sizes.elements);
                   call(&Kernels<T>::add_square_sum, call.in(wide, "values", sizes.elements), sizes.elements,
                        call.updated(real, "sum", 1, uniform(1, 2)));
                 }),
      make_trial("add_statistics",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_elements(call, sizes.elements);
                   call(&Kernels<T>::add_statistics, call.in(stored, "values", sizes.elements, normal(1, 1)),
                        sizes.elements, call.updated(whole_statistics, "statistics", 1, constant(0)));
                 }),
  };
}

}  // namespace lockstep::trial
