#include "data/batch.hpp"

namespace lockstep {

std::vector<double> numbers_of(const std::vector<DatasetUse>& uses) {
  std::vector<double> numbers;
  for (const DatasetUse& use : uses) {
    numbers.push_back(static_cast<double>(use.samples));
    numbers.push_back(static_cast<double>(use.tokens));
  }
  return numbers;
}

std::vector<DatasetUse> uses_of(const std::vector<double>& numbers) {
  std::vector<DatasetUse> uses;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += numbers_of_use)
    uses.push_back({static_cast<std::int64_t>(numbers[i]), static_cast<std::int64_t>(numbers[i + 1])});
  return uses;
}

}  // namespace lockstep
