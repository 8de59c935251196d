// Messages in which the writers of a checkpoint exchange records of pieces, as numbers between ranks of one program.
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

/// Appends the record of a written piece: its fingerprint and the hashes of its blocks. Pure.
void add_record(Numbers& numbers, std::size_t piece, const PieceRecord& record);
/// Copies appended records into `records`, which are by piece and keep their offsets. Pure.
void take_records(const Numbers& numbers, std::vector<PieceRecord>& records);

}  // namespace lockstep
