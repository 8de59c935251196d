// What the writers of a checkpoint tell each other of pieces, as numbers in a message between ranks of one program.
#pragma once

#include "store/part_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

using Numbers = std::vector<std::uint64_t>;

std::string encode(const Numbers& numbers);
Numbers decode_numbers(const std::string& bytes);

/// Appends what became of a piece as it was written: its fingerprint and the hashes of its blocks. Pure.
void add_record(Numbers& numbers, std::size_t piece, const PieceRecord& record);
/// Puts what add_record appended into the records, which are by piece and keep their places. Pure.
void take_records(const Numbers& numbers, std::vector<PieceRecord>& records);

}  // namespace lockstep
