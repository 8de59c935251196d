// Records of other forms as JSON lines, made while they are read: one object a line, so that the line is the number of
// the record.
#pragma once

#include "corpus/byte_reader.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// A line that stands for a record that cannot be read: JsonLines refuses it for this reason.
constexpr char problem_mark = '\x15';

/// The records of a table as RFC 4180 has it, its first row being the names: each an object of text. As Python's csv
/// reads them: a quote within a field that does not begin with one stands for itself, what follows a closing one
/// belongs to the field, empty rows are passed over. A row with another number of fields is a problem line; throws
/// Error(input) naming `file` if a quoted field is never closed, a name comes twice, or a row has more than
/// `longest` bytes.
std::unique_ptr<ByteReader> csv_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file, char delimiter,
                                              std::size_t longest = std::size_t{1} << 30);

/// The values of a JSON text: the elements of its array, or the values that follow each other. Throws Error(input)
/// naming `file` and the record where the text ends amid one or is not a sequence of values; what a value holds is not
/// checked.
std::unique_ptr<ByteReader> json_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file);

}  // namespace lockstep
