#include "tensor/runtime.hpp"

#include "tensor/parallel.hpp"

#include <ATen/Parallel.h>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <vector>

BOOST_AUTO_TEST_SUITE(runtime)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(denormals_are_zero_in_every_thread) {
  const int before = at::get_num_threads();
  set_up_runtime(3);
  std::vector<float> results(3, -1);
  const volatile float tiny = std::numeric_limits<float>::min(), half = 0.5f;
  parallel_for(3, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) results[static_cast<std::size_t>(i)] = tiny * half;
  });
  BOOST_TEST(results == std::vector<float>(3, 0));
  BOOST_TEST(at::get_num_threads() == 3);
  at::set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(threads_are_as_asked_then_as_the_environment_says_then_a_share_of_the_cores) {
  BOOST_TEST(threads_per_rank(5, 2) == 5);
  setenv("OMP_NUM_THREADS", "7", 1);
  BOOST_TEST(threads_per_rank(0, 2) == 7);
  unsetenv("OMP_NUM_THREADS");
  BOOST_TEST(threads_per_rank(0, 1) >= threads_per_rank(0, 2));
  BOOST_TEST(threads_per_rank(0, 1000000) == 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

BOOST_AUTO_TEST_CASE(a_loop_visits_every_iteration_once_for_every_size) {
  for (std::int64_t count = 0; count < 50; ++count) {
    std::vector<int> visits(static_cast<std::size_t>(count));
    parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    BOOST_TEST(visits == std::vector<int>(visits.size(), 1));
  }
}

BOOST_AUTO_TEST_CASE(what_the_body_of_a_parallel_loop_throws_arrives_after_all_have_ended) {
  std::vector<int> done(8);
  const auto loop = [&] {
    parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) done[static_cast<std::size_t>(i)] = 1;
      if (begin == 0) throw std::runtime_error("first");
    });
  };
  BOOST_CHECK_THROW(loop(), std::runtime_error);
  BOOST_TEST(done == std::vector<int>(8, 1), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
