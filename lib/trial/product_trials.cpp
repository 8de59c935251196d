// Trials of matrix products.
#include "trial/trials.hpp"

#include <fmt/format.h>

namespace lockstep::trial {

namespace {

/// A factor, with a gap between rows in small sizes.
template <class T>
MatrixView<T> factor(KernelCall<T>& call, std::string_view name, std::int64_t rows, std::int64_t columns, Trans trans,
                     std::int64_t gap) {
  if (trans == Trans::yes) std::swap(rows, columns);
  return {call.in(stored, name, {rows, columns, columns + gap}), columns + gap, trans};
}

/// The factors of the product of a case.
template <class T>
struct Factors {
  Factors(KernelCall<T>& call, const TrialSizes& sizes)
      : gap(sizes.has_odd_parts ? 2 : 0),
        a(factor(call, "a", sizes.product.m, sizes.product.k, sizes.product.a, gap)),
        b(factor(call, "b", sizes.product.k, sizes.product.n, sizes.product.b, gap)) {
    const auto& [m, n, k, a_trans, b_trans, adds, has_bias, sums_rows] = sizes.product;
    const auto letter = [](Trans trans) { return trans == Trans::yes ? 'T' : 'N'; };
    call.facts.shape = fmt::format("{}x{}x{} {}{}", m, n, k, letter(a_trans), letter(b_trans));
    call.facts.flops = 2 * static_cast<double>(m * n) * static_cast<double>(k);
    call.facts.terms = k;
    call.facts.multiplies = true;
  }
  std::int64_t gap;
  MatrixView<T> a, b;
};

template <class T>
const T* bias(KernelCall<T>& call, const ProductSize& product) {
  return product.has_bias ? call.in(stored, "bias", product.n) : nullptr;
}

template <class T>
Math<T>* sums(KernelCall<T>& call, const ProductSize& product, std::int64_t gap) {
  const Extent extent{product.m, product.n, product.n + gap};
  return product.adds ? call.updated(wide, "c", extent) : call.out(wide, "c", extent);
}

/// The first row of each expert. The second expert has no rows.
template <class T>
RowGroups groups(KernelCall<T>& call, const TrialSizes& sizes) {
  const std::int64_t experts = sizes.model.experts.count, rows = sizes.product.m;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t expert = 1; expert <= experts; ++expert)
    offsets.push_back(expert == 2 && sizes.has_odd_parts && experts > 2 ? offsets.back() : rows * expert / experts);
  return {call.in(index64, "offsets", experts + 1, given(offsets)), experts};
}

template <class T>
void describe_groups(KernelCall<T>& call, const TrialSizes& sizes, std::int64_t terms) {
  const ProductSize& product = sizes.product;
  call.facts.shape = fmt::format("{}x{}x{} of {}", product.m, product.n, product.k, sizes.model.experts.count);
  call.facts.flops = 2 * static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
  call.facts.terms = terms;
  call.facts.multiplies = true;
}

}  // namespace

std::vector<Trial> product_trials() {
  return {
      make_product_trial("gemm", wide_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           const Factors<T> of(call, sizes);
                           call(&Kernels<T>::gemm, product.m, product.n, product.k, 0.5, of.a, of.b,
                                product.adds ? 1.0 : 0.0, sums(call, product, of.gap), product.n + of.gap);
                         }),
      make_product_trial("gemm_scaled", scaled_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           const Factors<T> of(call, sizes);
                           call(&Kernels<T>::gemm_scaled, product.m, product.n, product.k,
                                call.in(real, "alpha", 1, constant(0.75)), of.a, of.b, product.adds ? 1.0 : 0.0,
                                sums(call, product, of.gap), product.n + of.gap);
                         }),
      make_product_trial("gemm_rounded", rounded_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           const Factors<T> of(call, sizes);
                           const std::int64_t stride = product.n + of.gap;
                           call(&Kernels<T>::gemm_rounded, product.m, product.n, product.k, of.a, of.b,
                                bias(call, product), call.out(stored, "y", {product.m, product.n, stride}), stride);
                         }),
      make_product_trial("gemm_add", adding_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           const Factors<T> of(call, sizes);
                           const Extent extent{product.m, product.n};
                           call(&Kernels<T>::gemm_add, product.m, product.n, product.k, of.a, of.b,
                                call.in(wide, "base", extent), bias(call, product), call.out(wide, "y", extent));
                         }),
      make_product_trial("grouped_gemm_rounded", expert_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           describe_groups(call, sizes, product.k);
                           call(&Kernels<T>::grouped_gemm_rounded, groups(call, sizes), product.n, product.k,
                                call.in(stored, "x", {product.m, product.k}),
                                call.in(stored, "weights", {sizes.model.experts.count, product.n * product.k}),
                                product.b, call.out(stored, "y", {product.m, product.n}));
                         }),
      make_product_trial("grouped_weight_gemm", expert_weight_products,
                         []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                           const ProductSize& product = sizes.product;
                           describe_groups(call, sizes, product.m);
                           const Extent weights{sizes.model.experts.count, product.n * product.k};
                           call(&Kernels<T>::grouped_weight_gemm, groups(call, sizes), product.n, product.k,
                                call.in(stored, "dy", {product.m, product.n}),
                                call.in(stored, "x", {product.m, product.k}), product.adds ? 1.0 : 0.0,
                                product.adds ? call.updated(wide, "dweights", weights)
                                             : call.out(wide, "dweights", weights));
                         }),
  };
}

}  // namespace lockstep::trial
