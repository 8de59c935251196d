// Attention over a cache of keys and values on the device, run on the host, against loops in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/attention_over_cache.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_cached_attention)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// New rows of texts, and how many positions of each are in the cache before.
struct Case {
  AttentionShape shape;
  std::vector<std::int64_t> rows, before;
  bool rotates = false;
  std::int64_t capacity = 0;  // 0: that of the longest text
  Start start = Start::aligned;

  std::int64_t texts() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::size_t t = 0; t < rows.size(); ++t) most = std::max(most, before[t] + rows[t]);
    return most;
  }
  std::int64_t places() const { return capacity > 0 ? capacity : longest(); }
  /// The texts lie in the slots backwards, and a slot is free.
  std::int64_t slot(std::int64_t text) const { return texts() - text; }
  std::int64_t place(std::int64_t text, std::int64_t head, std::int64_t position) const {
    return ((slot(text) * 2 * shape.kv_heads + head) * places() + position % places()) * shape.head_size;
  }
};

template <class T>
struct Inputs {
  explicit Inputs(const Case& of) : cosine(angles(of, false)), sine(angles(of, true)) {
    for (std::int64_t t = 0; t < of.texts(); ++t) {
      starts.push_back(starts.back() + of.rows[t]);
      slots.push_back(static_cast<std::int32_t>(of.slot(t)));
      for (std::int64_t r = 0; r < of.rows[t]; ++r) positions.push_back(static_cast<std::int32_t>(of.before[t] + r));
    }
    qkv = Values<T>(normal_values(starts.back() * of.shape.width(), 1), of.start);
    // Places that no row sees hold NaN.
    cache = Values<T>((of.texts() + 1) * 2 * of.shape.kv_heads * of.places() * of.shape.head_size, of.start);
    const std::int64_t size = of.shape.head_size, window = of.shape.window;
    for (std::int64_t t = 0; t < of.texts(); ++t) {
      const Values<T> history(
          normal_values(of.before[t] * 2 * of.shape.kv_heads * size, static_cast<std::uint32_t>(t)));
      const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, of.before[t] + 1 - window) : 0;
      for (std::int64_t i = 0; i < history.count(); ++i) {
        const std::int64_t position = i / size / (2 * of.shape.kv_heads), head = i / size % (2 * of.shape.kv_heads);
        if (of.rows[t] > 0 && position >= first)
          cache.data()[of.place(t, head, position) + i % size] = rounded<T>(history[i]);
      }
    }
  }
  static std::vector<double> angles(const Case& of, bool sine) {
    std::vector<double> values;
    for (std::int64_t position = 0; position < of.longest(); ++position) {
      for (std::int64_t i = 0; i < of.shape.head_size / 2; ++i) {
        const double angle = static_cast<double>(position) / static_cast<double>(i + 1);
        values.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
    }
    return values;
  }

  std::vector<std::int64_t> starts{0};
  std::vector<std::int32_t> slots, positions;
  Values<T> qkv{0}, cache{0};
  Values<Math<T>> cosine, sine;
};

/// y, cache.
template <class T>
Results expected(const Case& of, const Inputs<T>& in) {
  const AttentionShape& shape = of.shape;
  const std::int64_t size = shape.head_size, half = size / 2, group = shape.heads / shape.kv_heads;
  Results all{{}, in.cache.all()};
  std::vector<double>& cache = all[1];
  const auto head_of = [&](std::int64_t row, std::int64_t position, std::int64_t head) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < size; ++i) values.push_back(in.qkv[row * shape.width() + head * size + i]);
    for (std::int64_t i = 0; i < half && of.rotates && head < shape.heads + shape.kv_heads; ++i) {
      const double a = values[i], b = values[i + half], c = in.cosine[position * half + i],
                   s = in.sine[position * half + i];
      values[i] = a * c - b * s;
      values[i + half] = b * c + a * s;
    }
    return values;
  };
  for (std::int64_t t = 0; t < of.texts(); ++t) {
    for (std::int64_t r = 0; r < of.rows[t]; ++r) {
      const std::int64_t row = in.starts[t] + r, position = of.before[t] + r;
      for (std::int64_t head = 0; head < 2 * shape.kv_heads; ++head) {
        const std::vector<double> values = head_of(row, position, shape.heads + head);
        for (std::int64_t i = 0; i < size; ++i)
          cache[of.place(t, head, position) + i] = static_cast<double>(load(rounded<T>(values[i])));
      }
    }
  }
  for (std::int64_t t = 0; t < of.texts(); ++t) {
    for (std::int64_t r = 0; r < of.rows[t]; ++r) {
      const std::int64_t position = of.before[t] + r;
      const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, position + 1 - shape.window) : 0;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::vector<double> query = head_of(in.starts[t] + r, position, head);
        std::vector<double> weights, y(size);
        double sum = 0;
        for (std::int64_t key = first; key <= position; ++key) {
          double score = 0;
          for (std::int64_t i = 0; i < size; ++i) score += query[i] * cache[of.place(t, head / group, key) + i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          sum += weights.back();
        }
        for (std::int64_t key = first; key <= position; ++key) {
          for (std::int64_t i = 0; i < size; ++i)
            y[i] += weights[key - first] / sum * cache[of.place(t, shape.kv_heads + head / group, key) + i];
        }
        all[0].insert(all[0].end(), y.begin(), y.end());
      }
    }
  }
  return all;
}

template <class T>
void check(const Case& of, const std::string& type) {
  Inputs<T> in(of);
  const Results wanted = expected(of, in);
  const Rotation<Math<T>> rotation{of.rotates ? in.cosine.data() : nullptr, in.sine.data()};
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(static_cast<std::int64_t>(wanted[0].size()), of.start), cache = in.cache;
    cuda::cached_attention<T>(
        in.qkv.data(), of.shape,
        {{in.starts.data(), of.texts(), in.starts.back()}, in.slots.data(), in.positions.data(), of.places()}, rotation,
        cache.data(), y.data());
    return {y.all(), cache.all()};
  });
  const std::string name =
      type + ", heads of " + std::to_string(of.shape.head_size) + ", window " + std::to_string(of.shape.window);
  check_near(found[0], wanted[0], 2 * rounding<T>, name + ", y");
  check_near(found[1], wanted[1], rounding<T>, name + ", cache");
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_heads_and_rotations_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({{4, 2, 16}, {1, 0, 7, 1}, {20, 5, 0, 0}, true}, type);
    check<T>({{3, 1, 20}, {1, 3}, {40, 2}, false, 0, Start::unaligned}, type);
  });
}

BOOST_AUTO_TEST_CASE(heads_of_any_size_and_group_agree) {
  check<float>({{5, 1, 7}, {2, 1}, {9, 0}}, "fp32");
  check<float>({{2, 2, 200}, {1}, {30}, true}, "fp32");
  check<double>({{6, 2, 72}, {2}, {12}, true}, "fp64");
  check<double>({{1, 1, 256}, {1}, {5}}, "fp64");
  check<Bf16>({{8, 1, 128}, {1, 1}, {70, 33}, true}, "bf16");
}

BOOST_AUTO_TEST_CASE(blocks_have_several_queries_in_a_large_call) {
  for (const std::int64_t heads : {2, 3, 5}) check<float>({{heads, 1, 4}, {150, 1, 110}, {0, 30, 3}, true}, "fp32");
}

BOOST_AUTO_TEST_CASE(texts_may_be_longer_than_a_chunk) {
  check<float>({{2, 1, 4}, {2, 1}, {1023, 511}, true}, "fp32");
  check<Fp16>({{1, 1, 64}, {1}, {700}}, "fp16");
}

BOOST_AUTO_TEST_CASE(windows_hide_early_positions_and_let_the_cache_wrap) {
  for (const std::int64_t window : {1, 6, 40}) {
    check<float>({{2, 1, 8, window}, {1, 5, 3}, {60, 17, 0}, true}, "fp32");
    check<double>({{2, 1, 8, window}, {1, 5, 3}, {60, 17, 0}, true, window + 4}, "fp64");
  }
  check<float>({{1, 1, 4, 530}, {1, 1}, {1200, 100}, false, 530}, "fp32");
}

BOOST_AUTO_TEST_CASE(rows_and_slots_may_lie_gigabytes_into_their_memory) {
  constexpr std::int64_t row = 34000000, slot = 6000000, capacity = 4, size = 128;
  DistantMemory<Bf16> qkv((row + 1) * 3 * size), y((row + 1) * size), cache((slot + 1) * 2 * capacity * size);
  DistantMemory<std::int32_t> positions(row + 1);
  const std::int64_t starts[] = {row, row + 1}, values = row * 3 * size + 2 * size;
  const std::int32_t slots[] = {slot};
  positions.set(row, {1});
  qkv.set(values + 5, {4});
  cache.set((slot * 2 + 1) * capacity * size + 5, {2});  // the value of position 0
  const on_host::LastBlocks only(1);
  cuda::cached_attention<Bf16>(qkv.data(), {1, 1, size}, {{starts, 1, row + 1}, slots, positions.data(), capacity}, {},
                               cache.data(), y.data());
  BOOST_TEST(load(cache.data()[((slot * 2 + 1) * capacity + 1) * size + 5]) == 4);
  BOOST_TEST(load(y.data()[row * size + 5]) == 3);
}

BOOST_AUTO_TEST_CASE(a_nan_stays_in_its_text_and_head) {
  const Case of{{2, 1, 8}, {1, 1}, {4, 5}};
  Inputs<float> in(of);
  in.qkv.data()[8 + 3] = NAN;  // a query of the second head
  Values<float> y(2 * 16);
  cuda::cached_attention<float>(in.qkv.data(), of.shape,
                                {{in.starts.data(), 2, 2}, in.slots.data(), in.positions.data(), of.places()}, {},
                                in.cache.data(), y.data());
  for (std::int64_t i = 0; i < y.count(); ++i) BOOST_TEST(std::isnan(y[i]) == (i / 8 == 1));
}

BOOST_AUTO_TEST_SUITE_END()
