#include "base/error.hpp"
#include "base/random.hpp"
#include "store/hdf5.hpp"
#include "store/part_file.hpp"
#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstring>
#include <thread>

using namespace lockstep;

namespace {

struct Content {
  std::vector<PartPiece> pieces;
  std::vector<std::vector<std::byte>> bytes;
};

// Small and large, aligned and odd, a scalar, and one with more than two blocks.
Content content() {
  Content result;
  const RandomStream random(1, "content");
  std::uint64_t draw = 0;
  const auto add = [&](const std::string& name, DType dtype, Shape global, Box box) {
    result.pieces.push_back({name, std::move(global), dtype, std::move(box)});
    std::vector<std::byte> bytes(bytes_of(result.pieces.back()));
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const std::uint64_t bits = random.bits(draw++);
      std::memcpy(bytes.data() + i, &bits, 8);
    }
    result.bytes.push_back(std::move(bytes));
  };
  add("model/a", DType::f32, {100, 7}, {{10, 0}, {20, 7}});
  add("model/large", DType::bf16, {3000, 3001}, whole({3000, 3001}));
  add("optimizer/exp_avg/a", DType::f32, {}, whole({}));
  add("model/odd", DType::u8, {1048577}, whole({1048577}));
  return result;
}

struct Written {
  std::vector<PieceRecord> records;
  SealedPart sealed;
};

Written write(const Path& path, const Content& content) {
  Written written;
  const StampedPart stamped = stamp_part(path, content.pieces);
  PartWriter writer(path);
  for (std::size_t i = 0; i < content.pieces.size(); ++i)
    written.records.push_back(writer.write(content.pieces[i], stamped.offsets[i], content.bytes[i]));
  writer.finish();
  written.sealed = seal_part(path, content.pieces, written.records, stamped.table_offset);
  return written;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(part_file)

BOOST_FIXTURE_TEST_CASE(a_sealed_part_is_read_by_the_library_as_written, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  BOOST_TEST(written.sealed.bytes == std::filesystem::file_size(path / "part.h5"));
  const Hdf5File file = Hdf5File::open(path / "part.h5");
  for (std::size_t i = 0; i < given.pieces.size(); ++i) {
    std::vector<std::byte> read(given.bytes[i].size());
    file.read(dataset_of(given.pieces[i]), read);
    BOOST_TEST((read == given.bytes[i]));
  }
  BOOST_TEST(file.has("/model/a/10:30,0:7"));
  BOOST_TEST(file.has("/optimizer/exp_avg/a/scalar"));
}

BOOST_FIXTURE_TEST_CASE(a_part_says_itself_what_is_in_it, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  const PartTable table = read_part_table(path / "part.h5");
  BOOST_REQUIRE_EQUAL(table.pieces.size(), given.pieces.size());
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    BOOST_TEST(table.pieces[i].tensor == given.pieces[i].tensor);
    BOOST_TEST((table.pieces[i].box == given.pieces[i].box));
    BOOST_TEST((table.records[i].blocks == written.records[i].blocks));
    BOOST_TEST(table.records[i].offset == written.records[i].offset);
    BOOST_TEST((table.records[i].fingerprint == written.records[i].fingerprint));
  }
  BOOST_TEST(table.records[1].blocks.size() == 3u);   // 18 MB in blocks of 8 MiB
}

BOOST_FIXTURE_TEST_CASE(an_unsealed_part_does_not_open, TemporaryFolder) {
  const Content given = content();
  const StampedPart stamped = stamp_part(path / "part.h5", given.pieces);
  BOOST_CHECK_THROW(Hdf5File::open(path / "part.h5"), Error);
  PartWriter writer(path / "part.h5");
  for (std::size_t i = 0; i < given.pieces.size(); ++i) writer.write(given.pieces[i], stamped.offsets[i], given.bytes[i]);
  writer.finish();
  BOOST_CHECK_THROW(Hdf5File::open(path / "part.h5"), Error);
}

BOOST_FIXTURE_TEST_CASE(equal_content_gives_equal_parts_and_the_order_of_writing_does_not_matter, TemporaryFolder) {
  const Content given = content();
  write(path / "a.h5", given);
  const StampedPart stamped = stamp_part(path / "b.h5", given.pieces);
  std::vector<PieceRecord> records(given.pieces.size());
  for (std::size_t i = given.pieces.size(); i-- > 0;) {   // each by a writer of its own, as ranks that share a part
    PartWriter writer(path / "b.h5");
    records[i] = writer.write(given.pieces[i], stamped.offsets[i], given.bytes[i]);
    writer.finish();
  }
  seal_part(path / "b.h5", given.pieces, records, stamped.table_offset);
  BOOST_TEST((read_file(path / "a.h5") == read_file(path / "b.h5")));
}

BOOST_FIXTURE_TEST_CASE(direct_and_buffered_writing_and_the_library_itself_give_the_same_datasets, TemporaryFolder) {
  const Content given = content();
  write(path / "direct.h5", given);   // direct where the file system can
  const Path memory("/dev/shm");
  if (std::filesystem::is_directory(memory)) {   // tmpfs refuses direct I/O on most kernels
    const Path buffered = memory / path.filename();
    write(buffered, given);
    BOOST_TEST((read_file(buffered) == read_file(path / "direct.h5")));
    std::filesystem::remove(buffered);
  }
  Hdf5File plain = Hdf5File::create(path / "plain.h5");
  plain.set_attribute("/", "format", "lockstep.part");
  plain.set_attribute("/", "version", 1);
  for (std::size_t i = 0; i < given.pieces.size(); ++i)
    plain.add(dataset_of(given.pieces[i]), given.pieces[i].dtype, given.pieces[i].box.extent, given.bytes[i]);
  const std::string table = Hdf5File::open(path / "direct.h5").read_text("/_index");
  plain.add("/_index", DType::u8, {static_cast<std::int64_t>(table.size())}, std::as_bytes(std::span(table)));
  plain.close();
  BOOST_TEST((read_file(path / "plain.h5") == read_file(path / "direct.h5")));
}

BOOST_FIXTURE_TEST_CASE(the_bytes_of_a_part_do_not_depend_on_the_time_of_day, TemporaryFolder) {
  const Content given = content();
  write(path / "now.h5", given);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));   // HDF5 keeps whole seconds
  write(path / "later.h5", given);
  BOOST_TEST((read_file(path / "now.h5") == read_file(path / "later.h5")));
}

BOOST_FIXTURE_TEST_CASE(every_flipped_byte_changes_the_hash_of_the_part, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  const std::string right = read_file(path / "part.h5");
  const RandomStream random(4, "flips");
  const auto ignore = [](std::size_t, std::size_t, std::span<const std::byte>, const Hash128&) {};
  BOOST_TEST((part_hash(path / "part.h5", given.pieces, written.records, ignore) == written.sealed.hash));
  for (std::uint64_t trial = 0; trial < 24; ++trial) {
    const std::uint64_t at = trial < 12 ? random.below(trial, 8192) : random.below(trial, right.size());   // half of them among the metadata
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ (1 << trial % 8));
    publish_file(path / "part.h5", wrong);
    BOOST_TEST((part_hash(path / "part.h5", given.pieces, written.records, ignore) != written.sealed.hash));
  }
}

BOOST_AUTO_TEST_SUITE_END()
