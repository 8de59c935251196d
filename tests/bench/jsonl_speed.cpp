// jsonl-speed FOLDER [ROUNDS]: how fast one thread finds the texts of a file of JSON lines, from the page cache. Goal:
// 0.5 GB a second.
#include "base/files.hpp"
#include "readers/block_reader.hpp"
#include "readers/json_lines.hpp"
#include "timed.hpp"

#include <fmt/format.h>

#include <string>

using namespace lockstep;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 5;
  const Path folder = Path(argv[1]) / "json-lines";  // the program itself has the other name there
  make_folder(folder);
  const Path path = folder / "corpus.jsonl";
  std::string text;
  for (int line = 0; text.size() < (std::size_t{128} << 20); ++line) {
    text += fmt::format(R"({{"id": {}, "url": "https://example.org/{}", "text": ")", line, line);
    for (int word = 0; word < 300 + line % 200; ++word)
      text += word % 40 == 39 ? "\\n" : fmt::format("word{} ", (word * 31 + line) % 977);
    text += "naïve \\\"x²\\\"\"}\n";
  }
  publish_file(path, text);
  const std::vector<InputFile> files{{path, TextFormat::json_lines, Compression::none, text.size()}};
  std::size_t documents = 0, bytes = 0;
  const double ms = test::least_ms(rounds, [&] {
    documents = bytes = 0;
    BlockReader reader(files, parts_of_rank(files, 0, 1), [](std::string_view part) { return part.size(); });
    JsonLines lines("text");
    TextBlock block;
    while (reader.next(block)) {
      lines.for_each(
          block,
          [&](std::string_view found) {
            ++documents;
            bytes += found.size();
          },
          [](const BadText&) {});
    }
  });
  test::print({{"benchmark", "jsonl"},
               {"file_bytes", text.size()},
               {"documents", documents},
               {"text_bytes", bytes},
               {"gigabytes_per_second", static_cast<double>(text.size()) / ms / 1e6},
               {"goal", 0.5}});
  remove_tree(folder);
  return 0;
}
