#include "store/checkpoint_verify.hpp"

#include "base/error.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_view.hpp"
#include "store/part_file.hpp"
#include "store/run_directory.hpp"
#include "store/stored_file.hpp"
#include "store/write_plan.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

namespace lockstep {

namespace {

// The pieces of one file, as its hash needs them.
struct FilePieces {
  std::span<const IndexedPiece> indexed;
  std::vector<PartPiece> pieces;
  std::vector<PieceRecord> records;
  std::vector<Fingerprint> sums;  // as the bytes have it
};

FilePieces pieces_in(const CheckpointReader& reader, std::size_t file) {
  FilePieces held{reader.pieces_in(file), {}, {}, {}};
  for (const IndexedPiece& piece : held.indexed) {
    const StoredTensor& tensor = reader.manifest().tensors[piece.tensor];
    held.pieces.push_back({full_name(tensor), tensor.layout.global, tensor.layout.dtype, piece.box});
    held.records.push_back(piece.record);
  }
  held.sums.resize(held.pieces.size());
  return held;
}

Defect defect_of(VerifyLevel level, const std::string& file, const Error& error) {
  const Judgement judgement = judgement_of(error);
  return {level, file, "", judgement.reason, judgement.verdict, judgement.hint};
}

// What is not here may lie on the storage of another node: one process cannot tell whether it does.
Defect defect_of_length(const StoredFile& file, const std::string& what, bool is_there) {
  if (is_there || file.node.empty()) return {VerifyLevel::sizes, file.path, "", what};
  return {VerifyLevel::sizes, file.path, "", not_here(file.path, file.node), Verdict::unreadable, gather_hint()};
}

void check_sizes(const CheckpointReader& reader, Verification& result) {
  for (const StoredFile& file : reader.manifest().files) {
    try {
      const auto length = length_of(reader.path() / file.path);
      if (const auto defect = length_defect(file, length))
        result.defects.push_back(defect_of_length(file, *defect, length.has_value()));
    } catch (const Error& error) {
      result.defects.push_back(defect_of(VerifyLevel::sizes, file.path, error));
    }
  }
}

// Without manifest and index nothing else can be judged. That one of them is not there is seen by one process here.
Defect unopened(const Path& checkpoint, const Error& error) {
  Defect defect = defect_of(VerifyLevel::manifest, "", error);
  for (const std::string_view file : {manifest_file, index_file}) {
    try {
      if (length_of(checkpoint / file)) continue;
    } catch (const Error&) {  // then `error` says it as well
      continue;
    }
    defect.verdict = Verdict::damaged;
    defect.message = fmt::format("{} is missing", file);
    return defect;
  }
  return defect;
}

// A folder that was renamed, or a manifest from elsewhere.
std::optional<std::string> step_defect(const Path& checkpoint, const Manifest& manifest) {
  const auto step = step_of(checkpoint);
  if (!step || *step == manifest.step) return std::nullopt;
  return fmt::format("{} in {} has step {}", manifest_file, checkpoint.filename().string(), manifest.step);
}

// Nothing reads such files, but a folder that was verified holds what was saved and nothing else.
void check_strangers(const CheckpointReader& reader, Verification& result) {
  std::set<std::string> known{std::string(manifest_file)};
  for (const StoredFile& file : reader.manifest().files) known.insert(file.path);
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(reader.path(), error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    const std::string path = at->path().lexically_relative(reader.path()).string();
    if (at->is_directory(error) || known.contains(path) || is_view(path)) continue;
    result.defects.push_back(
        {VerifyLevel::hashes, path, "", fmt::format("{} is not in the manifest; nothing reads it", path)});
  }
  if (error)
    result.defects.push_back({VerifyLevel::hashes, "", "",
                              fmt::format("cannot list {}: {}", reader.path().string(), error.message()),
                              Verdict::unreadable});
}

// Every element is in one piece, as far as the files can say what they hold.
void check_coverage(const CheckpointReader& reader, Verification& result) {
  std::vector<std::vector<Box>> boxes(reader.manifest().tensors.size());
  for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) {
    const std::string& path = reader.manifest().files[file].path;
    try {
      for (const IndexedPiece& piece : reader.pieces_in(file)) boxes[piece.tensor].push_back(piece.box);
    } catch (const Error& error) {
      const bool told = std::ranges::any_of(result.defects, [&](const Defect& defect) { return defect.file == path; });
      if (!told) result.defects.push_back(defect_of(VerifyLevel::coverage, path, error));
    }
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const StoredTensor& tensor = reader.manifest().tensors[i];
    if (const auto defect = coverage_defect(tensor.layout.global, boxes[i])) {
      result.defects.push_back(
          {VerifyLevel::coverage, "", full_name(tensor), fmt::format("{}: {}", full_name(tensor), *defect)});
    }
  }
}

// Reads every byte once: block hashes, file hashes and, if asked, the fingerprints of the pieces.
class ContentCheck {
 public:
  ContentCheck(const CheckpointReader& reader, VerifyLevel level, Verification& result)
      : reader_(reader), level_(level), result_(result), sums_(reader.manifest().tensors.size()) {}

  void run() {
    for (std::size_t file = 0; file < reader_.manifest().files.size(); ++file) {
      try {
        FilePieces held = pieces_in(reader_, file);
        check_file(reader_.manifest().files[file], held);
        if (level_ == VerifyLevel::fingerprints) check_sums(reader_.manifest().files[file], held);
      } catch (const Error&) {  // its table: told with the coverage
      }
    }
    if (level_ == VerifyLevel::fingerprints) check_fingerprints();
  }

 private:
  void check_file(const StoredFile& file, FilePieces& held) {
    const std::size_t before = result_.defects.size();
    const auto check = [&](std::size_t piece, std::size_t block, std::span<const std::byte> bytes,
                           const Hash128& hash) {
      const PartPiece& part = held.pieces[piece];
      result_.bytes += bytes.size();
      if (level_ == VerifyLevel::fingerprints) {
        held.sums[piece] += fingerprint(part.global, part.dtype, part.box, bytes,
                                        static_cast<std::int64_t>(block * block_bytes) / size_of(part.dtype));
      }
      if (hash == held.records[piece].blocks[block]) return;
      const std::uint64_t begin = held.records[piece].offset + block * block_bytes;
      result_.defects.push_back({VerifyLevel::hashes, file.path, part.tensor,
                                 fmt::format("{} {} in {} does not match its hash (bytes {} to {} of the file)",
                                             part.tensor, to_text(part.box), file.path, begin, begin + bytes.size())});
    };
    try {
      const Hash128 hash = part_hash(reader_.path() / file.path, held.pieces, held.records, check);
      if (hash != file.hash && result_.defects.size() == before) {
        result_.defects.push_back({VerifyLevel::hashes, file.path, "",
                                   fmt::format("{} does not match its hash, outside of its tensors", file.path)});
      }
    } catch (const Error& error) {  // cut short or unreadable: a finding like the others
      result_.defects.push_back(defect_of(VerifyLevel::hashes, file.path, error));
    }
  }

  void check_sums(const StoredFile& file, const FilePieces& held) {
    for (std::size_t i = 0; i < held.indexed.size(); ++i) {
      sums_[held.indexed[i].tensor] += held.sums[i];
      if (held.sums[i] == held.records[i].fingerprint) continue;
      const std::string& tensor = held.pieces[i].tensor;
      result_.defects.push_back(
          {VerifyLevel::fingerprints, file.path, tensor,
           fmt::format("{} {} in {} does not match its fingerprint", tensor, to_text(held.pieces[i].box), file.path)});
    }
  }

  // Of a tensor that is not whole nothing more is to be said.
  void check_fingerprints() {
    std::set<std::string> incomplete;
    for (const Defect& defect : result_.defects)
      if (defect.level == VerifyLevel::coverage) incomplete.insert(defect.tensor);
    std::vector<StoredTensor> found = reader_.manifest().tensors;
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].fingerprint = sums_[i];
      if (found[i].fingerprint == reader_.manifest().tensors[i].fingerprint) continue;
      if (incomplete.contains(full_name(found[i]))) continue;
      result_.defects.push_back({VerifyLevel::fingerprints, "", full_name(found[i]),
                                 fmt::format("{}: its pieces do not match its fingerprint", full_name(found[i]))});
    }
    if (!incomplete.empty() || state_digest(found) == reader_.manifest().state_digest) return;
    result_.defects.push_back({VerifyLevel::fingerprints, "", "", "the tensors do not match the state digest"});
  }

  const CheckpointReader& reader_;
  VerifyLevel level_;
  Verification& result_;
  std::vector<Fingerprint> sums_;  // by tensor
};

}  // namespace

std::optional<std::string> length_defect(const StoredFile& file, const std::optional<std::uint64_t>& length) {
  if (!length && !file.node.empty())
    return fmt::format("{} is missing: {} wrote it to its own storage", file.path, file.node);
  if (!length) return fmt::format("{} is missing", file.path);
  if (*length != file.bytes) return fmt::format("{} has {} bytes instead of {}", file.path, *length, file.bytes);
  return std::nullopt;
}

Judgement Verification::judgement() const {
  for (const Verdict verdict : {Verdict::unreadable, Verdict::foreign, Verdict::damaged}) {
    for (const Defect& defect : defects) {
      if (defect.verdict == verdict) return {verdict, defect.message, defect.hint};
    }
  }
  return {};
}

Verification verify_checkpoint(const Path& checkpoint, VerifyLevel level) {
  Verification result;
  std::unique_ptr<CheckpointReader> reader;
  try {
    reader = std::make_unique<CheckpointReader>(checkpoint);
  } catch (const Error& error) {
    result.defects.push_back(unopened(checkpoint, error));
    return result;
  }
  result.reached = level;
  if (const auto defect = step_defect(checkpoint, reader->manifest()))
    result.defects.push_back({VerifyLevel::manifest, std::string(manifest_file), "", *defect});
  if (level >= VerifyLevel::sizes) check_sizes(*reader, result);
  if (level >= VerifyLevel::coverage) check_coverage(*reader, result);
  if (level >= VerifyLevel::hashes) {
    ContentCheck(*reader, level, result).run();
    check_strangers(*reader, result);
  }
  return result;
}

Judgement judge_checkpoint(const Path& checkpoint, VerifyLevel level) {
  return verify_checkpoint(checkpoint, level).judgement();
}

Sighting see_checkpoint(const Path& checkpoint) {
  Sighting sighting;
  const auto lacks = [&](const std::string& what) {
    if (sighting.lacking.empty()) sighting.lacking = what;
  };
  try {
    if (!length_of(checkpoint / manifest_file)) {
      lacks(fmt::format("{} is missing", manifest_file));
      return sighting;
    }
    const std::string text = read_stored(checkpoint / manifest_file);
    sighting.content = to_hex(hash128(text));
    sighting.manifest = sighting.content;
    Manifest manifest = parse_manifest(text, (checkpoint / manifest_file).string());
    if (const auto defect = step_defect(checkpoint, manifest)) sighting.judgement = {Verdict::damaged, *defect};
    const StoredFile index = index_of(manifest);
    if (const auto defect = length_defect(index, length_of(checkpoint / index.path))) {
      lacks(*defect);
      sighting.content += " without its index";
      return sighting;
    }
    if (manifest.format > 1) add_index(manifest, read_stored(checkpoint / index_file), checkpoint / index_file);
    for (const StoredFile& file : manifest.files) {
      const auto length = length_of(checkpoint / file.path);
      sighting.defects.push_back(length_defect(file, length));
      if (sighting.defects.back()) lacks(*sighting.defects.back());
      sighting.elsewhere = sighting.elsewhere || (!length && !file.node.empty());
      sighting.content += length ? fmt::format(" {}", *length) : " absent";
    }
  } catch (const Error& error) {
    sighting.judgement = judgement_of(error);
  }
  return sighting;
}

}  // namespace lockstep
