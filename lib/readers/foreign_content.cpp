#include "readers/foreign_content.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

constexpr const char* recode = "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW";
constexpr const char* recode_wide = "convert it: iconv -f UTF-32 -t UTF-8 FILE > NEW";
constexpr const char* rename = "compressed files need the suffix of their compression: .gz, .zst, .bz2 or .xz";
constexpr const char* unpack = "unpack it and name the files in it";

struct Mark {
  std::string_view bytes;
  ForeignContent content;
};
using namespace std::string_view_literals;
constexpr std::array<Mark, 12> marks{
    {{"\xFF\xFE\0\0"sv, {"UTF-32 text", recode_wide}},
     {"\0\0\xFE\xFF"sv, {"UTF-32 text", recode_wide}},
     {"\xFF\xFE", {"UTF-16 text", recode}},
     {"\xFE\xFF", {"UTF-16 text", recode}},
     {"\x1F\x8B", {"gzip data", rename}},
     {"\x28\xB5\x2F\xFD", {"zstd data", rename}},
     {"\xFD"
      "7zXZ\0"sv,
      {"xz data", rename}},
     {"BZh", {"bzip2 data", rename}},
     {"PK\x03\x04", {"a zip archive", unpack}},
     {"7z\xBC\xAF\x27\x1C", {"a 7z archive", unpack}},
     {"PAR1", {"a Parquet file", "rename it: a Parquet file needs the suffix .parquet"}},
     {"ARROW1", {"an Arrow file", "rename it: an Arrow file needs the suffix .arrow"}}}};

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view begin) {
  const auto is_it = [&](const Mark& mark) { return begin.starts_with(mark.bytes); };
  const auto* const mark = std::ranges::find_if(marks, is_it);
  const bool is_text = mark == marks.end() || !first_invalid_utf8(begin.substr(0, whole_code_points(begin)));
  return is_text ? std::nullopt : std::optional(mark->content);
}

void refuse_foreign_content(std::string_view begin, const std::string& file) {
  if (const auto foreign = foreign_content(begin))
    throw Error(ExitCode::input, fmt::format("cannot read {}: it is {}", file, foreign->what), foreign->advice);
}

}  // namespace lockstep
