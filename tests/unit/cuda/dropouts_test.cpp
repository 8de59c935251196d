// The dropout of the device, run on the host: the values of the CPU's kernels, bit by bit.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/dropouts.cu"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_dropouts)

using namespace lockstep;
using namespace lockstep::test;

namespace {

Place place(std::int64_t sample, std::int64_t index) { return sample << 32 | index; }

template <class T>
void check(std::int64_t columns, Start start, bool has_bias, const std::string& type) {
  const std::vector<Place> places{place(0, 0), place(3, 4000000000), -1, place(70000, 9), place(1, 2)};
  const auto rows = static_cast<std::int64_t>(places.size());
  const DropoutMask mask = dropout_mask(0.3, 11, 5, 2, DropoutSite::mlp_output);
  Values<Math<T>> x(normal_values(rows * columns, 1), start), base(normal_values(rows * columns, 2), start);
  Values<T> bias(normal_values(columns, 3), start);
  T* const given = has_bias ? bias.data() : nullptr;
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(rows * columns, start);
    Values<Math<T>> sum(x.all(), start);
    cuda::dropout<T>(mask, places.data(), rows, columns, x.data(), y.data());
    cuda::dropout_add<T>(mask, places.data(), rows, columns, base.data(), given, sum.data());
    return {y.all(), sum.all()};
  });
  Values<T> y(rows * columns);
  Values<Math<T>> sum(x.all());
  dropout<T>(mask, places.data(), rows, columns, x.data(), y.data());
  dropout_add<T>(mask, places.data(), rows, columns, base.data(), given, sum.data());
  const std::string name = type + ", " + std::to_string(columns) + " columns";
  check_near(found[0], y.all(), 0, name + ", dropout");
  check_near(found[1], sum.all(), rounding<Math<T>>, name + ", dropout_add");  // the CPU's may round once
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_those_of_the_cpu) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>(64, Start::aligned, true, type);
    check<T>(77, Start::aligned, false, type);
    check<T>(3, Start::unaligned, true, type);
  });
  check<float>(2100, Start::aligned, true, "fp32");
}

BOOST_AUTO_TEST_CASE(dropout_may_work_in_place_and_an_empty_mask_drops_nothing) {
  const Place places[] = {0, 1};
  Values<float> x(normal_values(2 * 40, 1)), y(x.all());
  cuda::dropout<float>(DropoutMask{}, places, 2, 40, y.data(), y.data());
  check_near(y.all(), x.all(), 0, "nothing dropped");
  const DropoutMask mask = dropout_mask(0.5, 1, 1, 1, DropoutSite::embedding);
  Values<float> z(2 * 40);
  cuda::dropout<float>(mask, places, 2, 40, x.data(), z.data());
  cuda::dropout<float>(mask, places, 2, 40, y.data(), y.data());
  check_near(y.all(), z.all(), 0, "in place");
}

BOOST_AUTO_TEST_SUITE_END()
