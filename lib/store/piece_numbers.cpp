#include "store/piece_numbers.hpp"

#include <cstring>

namespace lockstep {

std::string encode(const Numbers& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)};
}

Numbers decode_numbers(const std::string& bytes) {
  Numbers numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

void add_record(Numbers& numbers, std::size_t piece, const PieceRecord& record) {
  numbers.insert(numbers.end(), {piece, record.fingerprint.first, record.fingerprint.second, record.blocks.size()});
  for (const Hash128& block : record.blocks) numbers.insert(numbers.end(), {block.high, block.low});
}

void take_records(const Numbers& numbers, std::vector<PieceRecord>& records) {
  for (std::size_t i = 0; i < numbers.size();) {
    PieceRecord& record = records[numbers[i]];
    record.fingerprint = {numbers[i + 1], numbers[i + 2]};
    record.blocks.resize(numbers[i + 3]);
    i += 4;
    for (Hash128& block : record.blocks) {
      block = {numbers[i], numbers[i + 1]};
      i += 2;
    }
  }
}

}  // namespace lockstep
