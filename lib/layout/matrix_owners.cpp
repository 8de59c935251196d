#include "layout/matrix_owners.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

std::vector<int> matrix_owners(const std::vector<Shape>& matrices, int ranks) {
  std::vector<double> costs, busy(static_cast<std::size_t>(ranks));
  for (const Shape& matrix : matrices)
    costs.push_back(static_cast<double>(elements(matrix)) * static_cast<double>(std::min(matrix[0], matrix[1])));
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t matrix) { return costs[matrix]; });
  std::vector<int> owners(matrices.size());
  for (const std::size_t matrix : order) {
    const auto least = std::ranges::min_element(busy);
    owners[matrix] = static_cast<int>(least - busy.begin());
    *least += costs[matrix];
  }
  return owners;
}

std::int64_t most_owned(const std::vector<Shape>& matrices, int ranks) {
  const std::vector<int> owners = matrix_owners(matrices, ranks);
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks));
  for (std::size_t matrix = 0; matrix < matrices.size(); ++matrix)
    owned[static_cast<std::size_t>(owners[matrix])] += elements(matrices[matrix]);
  return std::ranges::max(owned);
}

}  // namespace lockstep
