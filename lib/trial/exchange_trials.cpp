// Trials of the kernels of exchanges between ranks: copies of pieces, and sums of the operands of ranks.
#include "trial/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::trial {

namespace {

constexpr std::int64_t ranks = 5;  // that exchange a unit

template <class T>
constexpr DType type_of = DType::f32;
template <>
constexpr DType type_of<double> = DType::f64;
template <>
constexpr DType type_of<Bf16> = DType::bf16;
template <>
constexpr DType type_of<Fp16> = DType::f16;

/// A row of each rank, in small sizes with a gap behind it.
Extent rows_of_ranks(const TrialSizes& sizes) {
  const std::int64_t columns = (sizes.elements + ranks - 1) / ranks * (sizes.has_odd_parts ? 24 : 1);
  return {ranks, columns, columns + (sizes.has_odd_parts ? 3 : 0)};
}

/// A part of a row.
struct Piece {
  std::int64_t row = 0, begin = 0, length = 0;
};

/// Whole rows; in small sizes also pieces of a few elements, so that they begin at any address.
std::vector<Piece> pieces_of(const Extent& rows, bool has_odd_parts) {
  constexpr std::array<std::int64_t, 8> lengths{1, 2, 3, 5, 8, 0, 17, 401};
  std::vector<Piece> pieces;
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const bool cuts = has_odd_parts && row % 2 == 1;
    std::size_t next = 0;
    for (std::int64_t begin = 0; begin < rows.columns;) {
      const std::int64_t left = rows.columns - begin;
      const std::int64_t length = cuts ? std::min(left, lengths[next++ % lengths.size()]) : left;
      pieces.push_back({row, begin, length});
      begin += length;
    }
  }
  return pieces;
}

/// A sum enters a place of the type of sums or of its own type, and replaces what is there or is added to it.
struct SumForm {
  bool widens = false, adds = false;
};
SumForm sum_form(const TrialSizes& sizes) { return {.widens = sizes.variant / 2 == 0, .adds = sizes.variant % 2 == 0}; }

template <class T, class Role>
std::byte* place_of_sum(KernelCall<T>& call, Role role, const SumForm& form, std::int64_t elements) {
  return reinterpret_cast<std::byte*>(form.adds ? call.updated(role, "sums", elements)
                                                : call.out(role, "sums", elements));
}

}  // namespace

std::vector<Trial> exchange_trials() {
  return {
      make_trial("copy_pieces",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent rows = rows_of_ranks(sizes);
                   const std::vector<Piece> pieces = pieces_of(rows, sizes.has_odd_parts);
                   call.facts.shape = fmt::format("{} in {}", rows.count(), pieces.size());
                   call.facts.slack = 0;
                   // One row lies behind the other, so that a copy that is too long brings other values than poison.
                   const T* const from = call.in(stored, "sent", {rows.rows, rows.columns});
                   T* const to = call.out(stored, "received", rows);
                   std::vector<MemoryCopy> copies;
                   const auto add = [&](const Piece& piece) {
                     copies.push_back(
                         {reinterpret_cast<const std::byte*>(from + piece.row * rows.columns + piece.begin),
                          reinterpret_cast<std::byte*>(to + piece.row * rows.stride + piece.begin),
                          piece.length * static_cast<std::int64_t>(sizeof(T))});
                   };
                   // Every second piece is copied after its neighbours, so that what it writes beside itself stays.
                   for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
                     for (std::size_t i = first; i < pieces.size() && from != nullptr; i += 2) add(pieces[i]);
                   call.exchange([copies](const ExchangeKernels& kernels) {
                     kernels.copy_pieces(copies.data(), static_cast<int>(copies.size()));
                   });
                 }),
      make_trial(
          "sum_operands",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            constexpr std::int64_t aligned = 256;  // elements: operands of ranks begin as memory of the device does
            const std::int64_t elements = sizes.elements, distance = (elements + aligned - 1) / aligned * aligned;
            const SumForm form = sum_form(sizes);
            call.facts.shape = fmt::format("{}x{}{}", ranks, elements, form.adds ? " added" : "");
            call.facts.terms = ranks + 1;
            call.facts.within = call.tested();  // the sum is rounded before it is added
            const OperandSum sum{.operands = reinterpret_cast<const std::byte*>(
                                     call.in(stored, "operands", {ranks, elements, distance})),
                                 .distance = distance * static_cast<std::int64_t>(sizeof(T)),
                                 .count = static_cast<int>(ranks),
                                 .elements = elements,
                                 .dtype = type_of<T>,
                                 .place = form.widens ? place_of_sum(call, wide, form, elements)
                                                      : place_of_sum(call, stored, form, elements),
                                 .place_dtype = form.widens ? type_of<Math<T>> : type_of<T>,
                                 .adds = form.adds};
            call.exchange([sum](const ExchangeKernels& kernels) { kernels.sum_operands(sum); });
          },
          [](const TrialSizes& sizes, Number tested) {
            return math_of(tested) == tested ? variants<2>(sizes) : variants<4>(sizes);
          }),
  };
}

}  // namespace lockstep::trial
