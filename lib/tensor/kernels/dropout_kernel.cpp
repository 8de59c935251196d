#include "tensor/kernels/dropout_kernel.hpp"

#include "base/random.hpp"
#include "tensor/kernels/row_grain.hpp"
#include "tensor/kernels/wide.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace lockstep {

namespace {

constexpr std::int64_t values_per_thread = 8192;
constexpr std::int64_t drawn = 64;  // columns whose bits are drawn at once: of 8 blocks

/// The rest of a counter: all but its column.
struct DrawnRow {
  DrawnRow(Place place, std::int64_t of_head)
      : index(static_cast<std::uint32_t>(place)),
        sample(static_cast<std::uint32_t>(place >> 32)),
        head(static_cast<std::uint32_t>(of_head)) {}
  std::uint32_t index, sample, head;
};

/// Bit i: whether column first + i is kept; `first` is a multiple of 64.
LOCKSTEP_INLINE std::uint64_t kept_columns(const DropoutMask& mask, const DrawnRow& row, std::int64_t first) {
  std::uint64_t kept = 0;
  for (std::int64_t block = 0; block < drawn / 8; ++block) {
    const auto words =
        philox({static_cast<std::uint32_t>(first / 8 + block), row.index, row.sample, row.head}, mask.key);
    for (std::uint32_t half = 0; half < 8; ++half) {
      const std::uint32_t bits = words[half / 2] >> (16 * (half % 2)) & 0xffffu;
      kept |= std::uint64_t{bits >= mask.threshold} << (8 * block + half);
    }
  }
  return kept;
}

template <class M>
LOCKSTEP_INLINE M factor(std::uint64_t kept, std::int64_t column, M scale) {
  return (kept >> column & 1) != 0 ? scale : M{0};
}

template <class T>
void add_rows(const DropoutMask& mask, const Place* places, std::int64_t begin, std::int64_t end, std::int64_t columns,
              const Math<T>* base, const T* bias, Math<T>* y) {
  using M = Math<T>;
  const auto scale = static_cast<M>(mask.scale());
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t first = 0; first < columns; first += drawn) {
      const std::uint64_t kept = places[r] < 0 ? ~std::uint64_t{0} : kept_columns(mask, DrawnRow(places[r], 0), first);
      const M whole = places[r] < 0 ? M{1} : scale;
      const std::int64_t at = r * columns + first, count = std::min(drawn, columns - first);
      for (std::int64_t c = 0; c < count; ++c) {
        const M value = bias ? y[at + c] + load(bias[first + c]) : y[at + c];
        y[at + c] = base[at + c] + value * factor(kept, c, whole);
      }
    }
  }
}

template <class T>
void drop_rows(const DropoutMask& mask, const Place* places, std::int64_t begin, std::int64_t end, std::int64_t columns,
               const Math<T>* x, T* y) {
  using M = Math<T>;
  const auto scale = static_cast<M>(mask.scale());
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t first = 0; first < columns; first += drawn) {
      const std::uint64_t kept = places[r] < 0 ? ~std::uint64_t{0} : kept_columns(mask, DrawnRow(places[r], 0), first);
      const M whole = places[r] < 0 ? M{1} : scale;
      const std::int64_t at = r * columns + first, count = std::min(drawn, columns - first);
      for (std::int64_t c = 0; c < count; ++c) store(y[at + c], x[at + c] * factor(kept, c, whole));
    }
  }
}

#ifdef LOCKSTEP_INTRINSICS

/// As kept_columns, eight counters at once in lanes of 64 bits, of which products read the low halves.
LOCKSTEP_WIDE LOCKSTEP_INLINE std::uint64_t kept_wide(const DropoutMask& mask, const DrawnRow& row,
                                                      std::int64_t first) {
  __m512i a = _mm512_add_epi64(_mm512_set1_epi64(first / 8), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  __m512i b = _mm512_set1_epi64(row.index), c = _mm512_set1_epi64(row.sample), d = _mm512_set1_epi64(row.head);
  const __m512i first_factor = _mm512_set1_epi64(0xD2511F53), second_factor = _mm512_set1_epi64(0xCD9E8D57);
  std::uint32_t low = mask.key[0], high = mask.key[1];
  constexpr int exclusive_or = 0x96;  // of three
  for (int round = 0; round < 10; ++round) {
    const __m512i p = _mm512_mul_epu32(a, first_factor), q = _mm512_mul_epu32(c, second_factor);
    a = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), b, _mm512_set1_epi64(low), exclusive_or);
    c = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), d, _mm512_set1_epi64(high), exclusive_or);
    b = q;
    d = p;
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  constexpr __mmask16 odd = 0xaaaa;
  const __m512i front = _mm512_mask_blend_epi32(odd, a, _mm512_slli_epi64(b, 32));  // words 0 and 1 of each block
  const __m512i back = _mm512_mask_blend_epi32(odd, c, _mm512_slli_epi64(d, 32));
  const __m512i early = _mm512_permutex2var_epi64(front, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), back);
  const __m512i late = _mm512_permutex2var_epi64(front, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), back);
  const __m512i threshold = _mm512_set1_epi16(static_cast<short>(mask.threshold));
  return std::uint64_t{_mm512_cmpge_epu16_mask(early, threshold)} |
         std::uint64_t{_mm512_cmpge_epu16_mask(late, threshold)} << 32;
}

LOCKSTEP_WIDE LOCKSTEP_INLINE __mmask16 sixteen(std::uint64_t kept, std::int64_t column) {
  return static_cast<__mmask16>(kept >> column);
}

template <class T>
LOCKSTEP_WIDE void add_wide(const DropoutMask& mask, const Place* places, std::int64_t begin, std::int64_t end,
                            std::int64_t columns, const float* base, const T* bias, float* y) {
  const __m512 scale = _mm512_set1_ps(static_cast<float>(mask.scale()));
  for (std::int64_t r = begin; r < end; ++r) {
    const bool padding = places[r] < 0;
    const __m512 whole = padding ? _mm512_set1_ps(1) : scale;
    for (std::int64_t first = 0; first < columns; first += drawn) {
      const std::uint64_t kept = padding ? ~std::uint64_t{0} : kept_wide(mask, DrawnRow(places[r], 0), first);
      const std::int64_t count = std::min(drawn, columns - first);
      for (std::int64_t c = 0; c < count; c += wide_lanes) {
        const __mmask16 lanes = lanes_of(count - c);
        const std::int64_t at = r * columns + first + c;
        __m512 value = load_wide(y + at, lanes);
        if (bias) value = _mm512_add_ps(value, load_wide(bias + first + c, lanes));
        const __m512 left = _mm512_mul_ps(value, _mm512_maskz_mov_ps(sixteen(kept, c), whole));
        store_wide(y + at, lanes, _mm512_add_ps(load_wide(base + at, lanes), left));
      }
    }
  }
}

template <class T>
LOCKSTEP_WIDE void drop_wide(const DropoutMask& mask, const Place* places, std::int64_t begin, std::int64_t end,
                             std::int64_t columns, const float* x, T* y) {
  const __m512 scale = _mm512_set1_ps(static_cast<float>(mask.scale()));
  for (std::int64_t r = begin; r < end; ++r) {
    const bool padding = places[r] < 0;
    const __m512 whole = padding ? _mm512_set1_ps(1) : scale;
    for (std::int64_t first = 0; first < columns; first += drawn) {
      const std::uint64_t kept = padding ? ~std::uint64_t{0} : kept_wide(mask, DrawnRow(places[r], 0), first);
      const std::int64_t count = std::min(drawn, columns - first);
      for (std::int64_t c = 0; c < count; c += wide_lanes) {
        const __mmask16 lanes = lanes_of(count - c);
        const std::int64_t at = r * columns + first + c;
        store_wide(y + at, lanes,
                   _mm512_mul_ps(load_wide(x + at, lanes), _mm512_maskz_mov_ps(sixteen(kept, c), whole)));
      }
    }
  }
}

LOCKSTEP_WIDE void drop_keys_wide(const DropoutMask& mask, const DrawnRow& row, std::int64_t first_key,
                                  std::int64_t count, float* scores) {
  const __m512 scale = _mm512_set1_ps(static_cast<float>(mask.scale()));
  for (std::int64_t j = 0; j < count;) {
    const std::int64_t past = (first_key + j) % drawn;
    std::uint64_t kept = kept_wide(mask, row, first_key + j - past) >> past;
    for (const std::int64_t end = std::min(count, j + drawn - past); j < end; kept >>= wide_lanes) {
      const __mmask16 lanes = lanes_of(end - j);
      store_wide(scores + j, lanes,
                 _mm512_mul_ps(load_wide(scores + j, lanes), _mm512_maskz_mov_ps(sixteen(kept, 0), scale)));
      j += std::min(wide_lanes, end - j);
    }
  }
}

#else

template <class T>
void add_wide(const DropoutMask&, const Place*, std::int64_t, std::int64_t, std::int64_t, const float*, const T*,
              float*) {}
template <class T>
void drop_wide(const DropoutMask&, const Place*, std::int64_t, std::int64_t, std::int64_t, const float*, T*) {}
void drop_keys_wide(const DropoutMask&, const DrawnRow&, std::int64_t, std::int64_t, float*) {}

#endif

}  // namespace

DropoutMask dropout_mask(double rate, std::uint64_t seed, std::int64_t step, std::int64_t layer, DropoutSite site) {
  if (rate <= 0) return {};
  const auto words = philox({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                             static_cast<std::uint32_t>(layer), static_cast<std::uint32_t>(site)},
                            {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::int64_t threshold = std::llround(rate * 65536);
  return {{words[0], words[1]}, static_cast<std::uint32_t>(std::clamp<std::int64_t>(threshold, 1, 65535))};
}

template <class T>
void dropout_add(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                 const Math<T>* base, const T* bias, Math<T>* y) {
  parallel_for(rows, row_grain(columns, values_per_thread), [=, &mask](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Math<T>, float>) {
      if (is_wide()) return add_wide<T>(mask, places, begin, end, columns, base, bias, y);
    }
    add_rows<T>(mask, places, begin, end, columns, base, bias, y);
  });
}

template <class T>
void dropout(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns, const Math<T>* x,
             T* y) {
  parallel_for(rows, row_grain(columns, values_per_thread), [=, &mask](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Math<T>, float>) {
      if (is_wide()) return drop_wide<T>(mask, places, begin, end, columns, x, y);
    }
    drop_rows<T>(mask, places, begin, end, columns, x, y);
  });
}

template <class M>
void dropout_keys(const DropoutMask& mask, Place query, std::int64_t head, std::int64_t first_key, std::int64_t count,
                  M* scores) {
  if (query < 0) return;
  const DrawnRow row(query, head);
  if constexpr (std::is_same_v<M, float>) {
    if (is_wide()) return drop_keys_wide(mask, row, first_key, count, scores);
  }
  const auto scale = static_cast<M>(mask.scale());
  for (std::int64_t j = 0; j < count;) {
    const std::int64_t past = (first_key + j) % drawn;
    const std::uint64_t kept = kept_columns(mask, row, first_key + j - past);
    for (std::int64_t column = past; column < drawn && j < count; ++column, ++j)
      scores[j] *= factor(kept, column, scale);
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void dropout_add<T>(const DropoutMask&, const Place*, std::int64_t, std::int64_t, const Math<T>*, const T*, \
                               Math<T>*);                                                                              \
  template void dropout<T>(const DropoutMask&, const Place*, std::int64_t, std::int64_t, const Math<T>*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
template void dropout_keys<float>(const DropoutMask&, Place, std::int64_t, std::int64_t, std::int64_t, float*);
template void dropout_keys<double>(const DropoutMask&, Place, std::int64_t, std::int64_t, std::int64_t, double*);

}  // namespace lockstep
