#include "layout/matrix_owners.hpp"

#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

BOOST_AUTO_TEST_SUITE(owners_of_matrices)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(the_costliest_come_first_each_to_the_rank_with_least_to_do) {
  const std::vector<Shape> layer{{4, 4}, {4, 2}, {2, 4}, {4, 4}, {8, 4}, {8, 4}, {4, 8}};
  BOOST_TEST(matrix_owners(layer, 1) == std::vector<int>(7, 0), boost::test_tools::per_element());
  // costs 64 16 16 64 128 128 128: three go to 0, 1, 2, then 64 to 0 and 1, then 16 and 16 to 2
  BOOST_TEST(matrix_owners(layer, 3) == (std::vector<int>{0, 2, 2, 1, 0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(most_owned(layer, 3) == 32 + 16);
  BOOST_TEST(most_owned(layer, 1) == 3 * 32 + 2 * 16 + 2 * 8);
  BOOST_TEST(most_owned({{3, 5}}, 4) == 15);
}

BOOST_AUTO_TEST_CASE(nobody_has_more_to_do_than_the_mean_and_one_matrix_besides) {
  const RandomStream random(7, "matrices");
  std::uint64_t next = 0;
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random.below(next++, 9));
    std::vector<Shape> matrices(1 + random.below(next++, 20));
    for (Shape& matrix : matrices)
      matrix = {1 + static_cast<std::int64_t>(random.below(next++, 40)),
                1 + static_cast<std::int64_t>(random.below(next++, 40))};
    const std::vector<int> owners = matrix_owners(matrices, ranks);
    std::vector<double> work(static_cast<std::size_t>(ranks));
    double all = 0, largest = 0;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const double cost =
          static_cast<double>(matrices[i][0] * matrices[i][1] * std::min(matrices[i][0], matrices[i][1]));
      BOOST_REQUIRE(owners[i] >= 0 && owners[i] < ranks);
      work[static_cast<std::size_t>(owners[i])] += cost;
      all += cost;
      largest = std::max(largest, cost);
    }
    BOOST_TEST(std::ranges::max(work) <= all / ranks + largest);
  }
}

BOOST_AUTO_TEST_SUITE_END()
