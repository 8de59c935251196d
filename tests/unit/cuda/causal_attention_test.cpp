// The attention of the device, run on the host, against loops over queries and keys in double: of one rank, and of the
// ranks of a ring, one after the other.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/causal_attention.cu"
#include "cuda/kernels/ring_steps.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_causal_attention)

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  std::vector<std::int64_t> starts;
  AttentionShape shape;
  bool rotates = false, drops = false;
  Start start = Start::aligned;

  std::int64_t tokens() const { return starts.back(); }
  std::int64_t width() const { return shape.width(); }
};

constexpr std::int64_t first_head = 3;

template <class T>
struct Inputs {
  explicit Inputs(const Case& of)
      : qkv(normal_values(of.tokens() * of.width(), 1), of.start),
        dy(normal_values(of.tokens() * of.shape.heads * of.shape.head_size, 2), of.start),
        cosine(angles(of, false)),
        sine(angles(of, true)),
        mask(of.drops ? dropout_mask(0.3, 5, 6, 7, DropoutSite::attention) : DropoutMask{}) {
    for (std::size_t s = 0; s + 1 < of.starts.size(); ++s) {
      for (std::int64_t token = of.starts[s]; token < of.starts[s + 1]; ++token) {
        const std::int64_t index = token - of.starts[s];
        positions.push_back(static_cast<std::int32_t>(index));
        // The second segment begins within a row of its sample, and the third is padding.
        places.push_back(s == 2 ? -1 : (static_cast<std::int64_t>(s) << 32) + index + (s == 1 ? 13 : 0));
      }
    }
  }
  static std::vector<double> angles(const Case& of, bool sine) {
    std::vector<double> values;
    for (std::int64_t position = 0; position < of.tokens(); ++position) {
      for (std::int64_t i = 0; i < of.shape.head_size / 2; ++i) {
        const double angle = static_cast<double>(position) / static_cast<double>(i + 1);
        values.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
    }
    return values;
  }
  Rotation<Math<T>> rotation(const Case& of) {
    return of.rotates ? Rotation<Math<T>>{cosine.data(), sine.data()} : Rotation<Math<T>>{};
  }
  AttentionDropout dropout() const { return {mask, mask ? places.data() : nullptr, first_head}; }

  Values<T> qkv, dy;
  Values<Math<T>> cosine, sine;
  std::vector<std::int32_t> positions;
  std::vector<Place> places;
  DropoutMask mask;
};

/// y, log_sums, dqkv.
template <class T>
Results expected(const Case& of, const Inputs<T>& in) {
  const std::int64_t size = of.shape.head_size, half = size / 2, heads = of.shape.heads;
  const std::int64_t group = heads / of.shape.kv_heads;
  const auto scale = 1 / std::sqrt(static_cast<double>(size));
  std::vector<double> rotated = in.qkv.all(), gradient(rotated.size());
  const auto turn = [&](std::vector<double>& values, double sign) {
    if (!of.rotates) return;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      const std::int64_t token = i / of.width(), head = i % of.width() / size, pair = i % size;
      if (head >= heads + of.shape.kv_heads || pair >= half) continue;
      const std::int64_t angle = in.positions[token] * half + pair;
      const double a = values[i], b = values[i + half];
      values[i] = a * in.cosine[angle] - sign * b * in.sine[angle];
      values[i + half] = b * in.cosine[angle] + sign * a * in.sine[angle];
    }
  };
  turn(rotated, 1);
  Results all{std::vector<double>(of.tokens() * heads * size), std::vector<double>(of.tokens() * heads), {}};
  for (std::size_t s = 0; s + 1 < of.starts.size(); ++s) {
    for (std::int64_t query = of.starts[s]; query < of.starts[s + 1]; ++query) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t window = of.shape.window, q = query * of.width() + head * size;
        const std::int64_t first = window == 0 ? of.starts[s] : std::max(of.starts[s], query - window + 1);
        const auto key_at = [&](std::int64_t key) { return key * of.width() + (heads + head / group) * size; };
        const auto value_at = [&](std::int64_t key) { return key_at(key) + of.shape.kv_heads * size; };
        const std::int64_t out = (query * heads + head) * size;
        std::vector<double> scores, factors, slopes;
        double sum = 0, product = 0;
        for (std::int64_t key = first; key <= query; ++key) {
          double score = 0, slope = 0, factor = 1;
          for (std::int64_t i = 0; i < size; ++i) {
            score += rotated[q + i] * rotated[key_at(key) + i] * scale;
            slope += in.dy[out + i] * rotated[value_at(key) + i];
          }
          if (of.drops) {
            const std::int64_t index = index_in_row(in.places[of.starts[s]]) + key - of.starts[s];
            dropout_keys<double>(in.mask, in.places[query], first_head + head, index, 1, &factor);
          }
          scores.push_back(std::exp(score));
          factors.push_back(factor);
          slopes.push_back(slope * factor);
          sum += scores.back();
        }
        all[1][query * heads + head] = std::log(sum);
        for (std::size_t k = 0; k < scores.size(); ++k) product += scores[k] / sum * slopes[k];
        for (std::int64_t key = first; key <= query; ++key) {
          const auto k = static_cast<std::size_t>(key - first);
          const double probability = scores[k] / sum, slope = probability * (slopes[k] - product);
          for (std::int64_t i = 0; i < size; ++i) {
            all[0][out + i] += probability * factors[k] * rotated[value_at(key) + i];
            gradient[value_at(key) + i] += probability * factors[k] * in.dy[out + i];
            gradient[q + i] += slope * scale * rotated[key_at(key) + i];
            gradient[key_at(key) + i] += slope * scale * rotated[q + i];
          }
        }
      }
    }
  }
  turn(gradient, -1);
  all[2] = gradient;
  return all;
}

template <class T>
void check(const Case& of, const std::string& type) {
  using M = Math<T>;
  Inputs<T> in(of);
  const Results wanted = expected(of, in);
  const Segments segments{of.starts.data(), static_cast<std::int64_t>(of.starts.size()) - 1, of.tokens()};
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(in.dy.count(), of.start), dqkv(in.qkv.count(), of.start);
    Values<M> log_sums(of.tokens() * of.shape.heads);
    const std::int32_t* const positions = of.rotates ? in.positions.data() : nullptr;
    cuda::attention_forward<T>(in.qkv.data(), of.shape, segments, in.rotation(of), positions, y.data(), log_sums.data(),
                               in.dropout());
    cuda::attention_backward<T>(in.dy.data(), in.qkv.data(), nullptr, log_sums.data(), of.shape, segments,
                                in.rotation(of), positions, dqkv.data(), in.dropout());
    return {y.all(), log_sums.all(), dqkv.all()};
  });
  const std::string name = type + ", heads of " + std::to_string(of.shape.head_size);
  check_near(found[0], wanted[0], 2 * rounding<T>, name + ", y");
  check_near(found[1], wanted[1], 4 * rounding<M>, name + ", log_sums");
  check_near(found[2], wanted[2], 4 * rounding<T>, name + ", dqkv");
}

/// The values of one rank of a ring.
template <class T>
struct RingRank {
  using M = Math<T>;
  RingRank(const Case& of, const Inputs<T>& in, const SequenceRanks& ranks, int ring)
      : rows(attended_rows(ranks, ring, of.starts)),
        parts(parts_of(ranks, ring, of.starts)),
        qkv(gathered(in.qkv, of.width(), 0, of.width()), of.start),
        kv(gathered(in.qkv, of.width(), output(of), of.width()), of.start),
        dy(gathered(in.dy, output(of), 0, output(of)), of.start),
        y(count() * output(of), of.start),
        dqkv(count() * of.width(), of.start),
        sums(std::vector<double>(static_cast<std::size_t>(count() * output(of)))),
        log_sums(std::vector<double>(static_cast<std::size_t>(count() * of.shape.heads), -INFINITY)),
        products(count() * of.shape.heads),
        dq(sums.all()),
        dkv(std::vector<double>(static_cast<std::size_t>(count() * (of.width() - output(of))))) {
    for (const std::int64_t row : rows) {
      positions.push_back(row < 0 ? 0 : in.positions[static_cast<std::size_t>(row)]);
      places.push_back(row < 0 ? -1 : in.places[static_cast<std::size_t>(row)]);
    }
  }
  static std::int64_t output(const Case& of) { return of.shape.heads * of.shape.head_size; }
  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
  /// Columns [begin, end) of this rank's rows; padding is 0.
  std::vector<double> gathered(const Values<T>& x, std::int64_t width, std::int64_t begin, std::int64_t end) const {
    std::vector<double> own;
    for (const std::int64_t row : rows) {
      for (std::int64_t column = begin; column < end; ++column) own.push_back(row < 0 ? 0 : x[row * width + column]);
    }
    return own;
  }
  template <class Own>
  void scatter(const Values<Own>& own, std::int64_t width, std::vector<double>& all) const {
    for (std::int64_t i = 0; i < own.count(); ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i / width)];
      if (row >= 0) all[static_cast<std::size_t>(row * width + i % width)] = own[i];
    }
  }

  std::vector<std::int64_t> rows;
  std::vector<SequencePart> parts;
  std::vector<std::int32_t> positions;
  std::vector<Place> places;
  Values<T> qkv, kv, dy, y, dqkv;
  Values<M> sums, log_sums, products, dq, dkv;
};

template <class T>
void check_ring(const Case& of, int ring, const std::string& type) {
  using M = Math<T>;
  Inputs<T> in(of);
  const Results wanted = expected(of, in);
  const SequenceRanks ranks{1, ring};
  const Results found = in_any_order([&]() -> Results {
    std::vector<RingRank<T>> all;
    for (int r = 0; r < ring; ++r) all.emplace_back(of, in, ranks, r);
    const auto step = [&](const RingRank<T>& own, const RingRank<T>& theirs) {
      return RingStep{of.shape,
                      own.count(),
                      static_cast<std::int64_t>(of.starts.size()) - 1,
                      {own.parts.data(), own.positions.data()},
                      {theirs.parts.data(), theirs.positions.data()}};
    };
    const auto dropout = [&](const RingRank<T>& own) {
      return AttentionDropout{in.mask, in.mask ? own.places.data() : nullptr, first_head};
    };
    Results results{std::vector<double>(wanted[0].size()), std::vector<double>(wanted[1].size()),
                    std::vector<double>(wanted[2].size())};
    for (RingRank<T>& own : all) {
      for (RingRank<T>& theirs : all)
        cuda::ring_attention_forward<T>(step(own, theirs), own.qkv.data(), theirs.kv.data(), in.rotation(of),
                                        own.sums.data(), own.log_sums.data(), dropout(own));
      cuda::ring_attention_result<T>(step(own, own), own.sums.data(), own.y.data());
      cuda::ring_attention_products<T>(step(own, own), own.dy.data(), own.y.data(), own.products.data());
    }
    for (RingRank<T>& own : all) {
      for (RingRank<T>& theirs : all)
        cuda::ring_attention_backward<T>(step(own, theirs), own.dy.data(), own.qkv.data(), theirs.kv.data(),
                                         in.rotation(of), own.log_sums.data(), own.products.data(), own.dq.data(),
                                         theirs.dkv.data(), dropout(own));
    }
    for (RingRank<T>& own : all) {
      cuda::ring_attention_gradient<T>(step(own, own), own.dq.data(), own.dkv.data(), in.rotation(of), own.dqkv.data());
      own.scatter(own.y, own.output(of), results[0]);
      own.scatter(own.log_sums, of.shape.heads, results[1]);
      own.scatter(own.dqkv, of.width(), results[2]);
    }
    return results;
  });
  const std::string name = type + ", ring of " + std::to_string(ring);
  check_near(found[0], wanted[0], 2 * rounding<T>, name + ", y");
  check_near(found[1], wanted[1], 4 * rounding<M>, name + ", log_sums");
  check_near(found[2], wanted[2], 6 * rounding<T>, name + ", dqkv");
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_of_a_ring_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) { check_ring<T>({{0, 1, 20, 37}, {2, 1, 8}, true}, 2, type); });
  check_ring<Bf16>({{0, 19, 23}, {2, 1, 20}, false, false, Start::unaligned}, 3, "bf16");
}

BOOST_AUTO_TEST_CASE(rings_have_windows_dropout_and_parts_longer_than_a_tile) {
  check_ring<float>({{0, 300, 310}, {2, 1, 8}, true, true}, 2, "fp32");
  check_ring<double>({{0, 90, 95}, {1, 1, 8, 40}, false, true}, 2, "fp64");
}

BOOST_AUTO_TEST_CASE(segments_heads_and_rotations_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({{0, 1, 1, 20, 37}, {4, 2, 8}, true}, type);
    check<T>({{0, 19, 23}, {2, 1, 20}, false, true, Start::unaligned}, type);
  });
}

BOOST_AUTO_TEST_CASE(segments_longer_than_a_tile_agree) {
  check<float>({{0, 70, 75, 210}, {2, 1, 16}, true}, "fp32");
  check<double>({{0, 70, 75}, {1, 1, 6}}, "fp64");
}

BOOST_AUTO_TEST_CASE(windows_hide_early_keys) {
  for (const std::int64_t window : {1, 5, 64, 100}) check<float>({{0, 150}, {1, 1, 8, window}}, "fp32");
}

BOOST_AUTO_TEST_CASE(dropout_draws_the_bits_of_the_cpu) {
  check<float>({{0, 70, 150, 160}, {2, 2, 8}, false, true}, "fp32");
  check<double>({{0, 40, 99}, {1, 1, 8, 33}, true, true}, "fp64");
}

BOOST_AUTO_TEST_CASE(large_heads_agree) {
  check<float>({{0, 70}, {1, 1, 128}, true}, "fp32");
  check<float>({{0, 35}, {2, 1, 200}}, "fp32");
  check<double>({{0, 34}, {1, 1, 72}, true}, "fp64");
  check<double>({{0, 18}, {1, 1, 256}}, "fp64");
}

BOOST_AUTO_TEST_CASE(tokens_may_lie_gigabytes_into_a_batch) {
  constexpr std::int64_t first = 12000000, size = 128;
  const std::int64_t starts[] = {first, first + 2};
  DistantMemory<float> qkv((first + 2) * 3 * size), y((first + 2) * size), log_sums(first + 2);
  qkv.data()[first * 3 * size + 2 * size + 5] = 4;  // a value of the first token
  const on_host::LastBlocks only(1);                // which has the first tile
  cuda::attention_forward<float>(qkv.data(), {1, 1, size}, {starts, 1, first + 2}, {}, nullptr, y.data(),
                                 log_sums.data(), {});
  BOOST_TEST(y.data()[first * size + 5] == 4);
  BOOST_TEST(y.data()[(first + 1) * size + 5] == 2);
}

BOOST_AUTO_TEST_CASE(a_nan_stays_in_its_segment_and_head) {
  const Case of{{0, 10, 30}, {2, 1, 8}};
  Inputs<float> in(of);
  in.qkv.data()[4 * of.width() + 8 + 3] = NAN;  // a query of the second head
  Values<float> y(in.dy.count()), log_sums(60);
  cuda::attention_forward<float>(in.qkv.data(), of.shape, {of.starts.data(), 2, 30}, {}, nullptr, y.data(),
                                 log_sums.data(), {});
  for (std::int64_t i = 0; i < y.count(); ++i) BOOST_TEST(std::isnan(y[i]) == (i / 8 == 4 * 2 + 1));
}

BOOST_AUTO_TEST_SUITE_END()
