#include "prepare/deduplicate.hpp"

#include "base/mapped_file.hpp"
#include "comm/long_work.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

namespace lockstep {

namespace {

using Alive = std::function<void()>;

/// Records of one rank for all ranks, in sections by the rank that they are for.
template <class Record>
class Letters {
 public:
  Letters(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}
  void write(const Path& path, const std::vector<std::vector<Record>>& sections) const {
    const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    std::vector<std::uint64_t> ends;
    std::uint64_t at = ranks_ * sizeof(std::uint64_t);
    for (const std::vector<Record>& section : sections) {
      write_at(file, std::as_bytes(std::span(section)), at, path);
      ends.push_back(at += section.size() * sizeof(Record));
    }
    write_at(file, std::as_bytes(std::span(ends)), 0, path);
  }
  std::vector<Record> read(const Path& path, int rank) const {
    const MappedFile file(path);
    const auto end_of = [&](std::size_t section) {
      std::uint64_t end = 0;
      std::memcpy(&end, file.bytes().data() + section * sizeof end, sizeof end);
      require_intact(file);
      return end;
    };
    const auto section = static_cast<std::size_t>(rank);
    const std::uint64_t begin = section == 0 ? ranks_ * sizeof(std::uint64_t) : end_of(section - 1);
    std::vector<Record> records((end_of(section) - begin) / sizeof(Record));
    if (!records.empty()) std::memcpy(records.data(), file.bytes().data() + begin, records.size() * sizeof(Record));
    require_intact(file);
    return records;
  }

 private:
  std::size_t ranks_;
};

struct Question {
  HashedDocument document;
  std::uint64_t index = 0;   // in the list of the rank that asks
  std::uint64_t asking = 0;  // that rank
};

/// The indices of what stands behind an equal document, by the rank that asks.
std::vector<std::vector<std::uint64_t>> answers(std::vector<Question>& questions, int ranks) {
  const auto place = [](const Question& question) {
    const HashedDocument& document = question.document;
    return std::tie(document.hash, document.rank, document.ordinal);
  };
  std::ranges::sort(questions, {}, place);
  std::vector<std::vector<std::uint64_t>> twice(static_cast<std::size_t>(ranks));
  const Question* first = nullptr;
  for (const Question& question : questions) {
    if (first == nullptr || first->document.hash != question.document.hash) first = &question;
    if (place(*first) != place(question)) twice[question.asking].push_back(question.index);
  }
  return twice;
}

}  // namespace

std::vector<bool> find_duplicates(Session& session, const Path& folder, const std::vector<HashedDocument>& documents) {
  Communicator& world = session.world();
  const int ranks = world.size();
  const auto file = [&](const char* what, int rank) { return folder / fmt::format("{}-{}", what, rank); };
  const Letters<Question> questions(ranks);
  const Letters<std::uint64_t> replies(ranks);
  long_work_together(session, "compare documents", [&](const Alive& alive) {
    std::vector<std::vector<Question>> sections(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < documents.size(); ++i) {
      alive();
      sections[documents[i].hash.low % static_cast<std::uint64_t>(ranks)].push_back(
          {documents[i], i, static_cast<std::uint64_t>(world.rank())});
    }
    questions.write(file("documents", world.rank()), sections);
  });
  long_work_together(session, "compare documents", [&](const Alive& alive) {
    std::vector<Question> mine;
    for (int rank = 0; rank < ranks; ++rank) {
      alive();
      const std::vector<Question> more = questions.read(file("documents", rank), world.rank());
      mine.insert(mine.end(), more.begin(), more.end());
    }
    replies.write(file("duplicates", world.rank()), answers(mine, ranks));
  });
  std::vector<bool> duplicates(documents.size());
  long_work_together(session, "compare documents", [&](const Alive& alive) {
    for (int rank = 0; rank < ranks; ++rank) {
      alive();
      for (const std::uint64_t index : replies.read(file("duplicates", rank), world.rank())) duplicates[index] = true;
    }
  });
  return duplicates;
}

}  // namespace lockstep
