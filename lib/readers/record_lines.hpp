// Converts records of other formats into JSON lines while they are read. Each object has one line, so the number of the
// line is the number of the record.
#pragma once

#include "readers/byte_reader.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// First character of a line that reports an unreadable record: JsonRecords refuses the record for the reason that
/// follows.
constexpr char problem_mark = '\x15';

/// The rows of a CSV table (RFC 4180) as objects of text; the first row has the names. Read as by Python's csv module:
/// a quote within an unquoted field stands for itself, text after a closing quote belongs to the field, empty rows are
/// skipped. A row with another number of fields becomes a problem line. Throws Error(input) naming `file` if a quoted
/// field is never closed, a name occurs twice, or a row has more than `longest` bytes.
std::unique_ptr<ByteReader> csv_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file, char delimiter,
                                              std::size_t longest = std::size_t{1} << 30);

/// The values of a JSON text: the elements of its array, or values that follow each other. Throws Error(input) naming
/// `file` and the record if the text ends within a value or is not a sequence of values. The contents of values are not
/// checked.
std::unique_ptr<ByteReader> json_as_json_lines(std::unique_ptr<ByteReader> bytes, std::string file);

}  // namespace lockstep
