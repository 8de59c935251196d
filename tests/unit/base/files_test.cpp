#include "base/files.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/own_files.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

using namespace lockstep;

namespace {
struct Folder {
  Path path = std::filesystem::temp_directory_path() / fmt::format("lockstep-files-test-{}", ::getpid());
  Folder() { make_folder(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};
}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_FIXTURE_TEST_CASE(a_published_file_replaces_the_old_one_and_leaves_nothing_beside_it, Folder) {
  publish_file(path / "a", "old");
  publish_file(path / "a", "new");
  BOOST_TEST(read_file(path / "a") == "new");
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
}

BOOST_FIXTURE_TEST_CASE(what_a_killed_process_of_the_same_number_left_keeps_no_file_from_being_published, Folder) {
  constexpr int most = 3000;  // that this process may have published so far
  const auto leave = [&](const std::string& name) { open_file(path / name, O_WRONLY | O_CREAT | O_EXCL); };
  for (int i = 0; i < most; ++i) leave(fmt::format(".a.{}-{}", ::getpid(), i));
  publish_file(path / "a", "new");
  BOOST_TEST(read_file(path / "a") == "new");
}

BOOST_FIXTURE_TEST_CASE(temporary_names_are_told_from_others_and_never_equal, Folder) {
  BOOST_TEST(temporary_beside(path / "a").parent_path() == path);
  BOOST_TEST(temporary_beside(path / "a") != temporary_beside(path / "a"));
  const std::string digits(32, 'e');
  publish_file(temporary_beside(path / "a"), "left by a killed process");
  const std::vector<std::string> kept = {"." + digits, ".a." + digits + "0", ".a.x" + digits.substr(1), "a." + digits};
  for (const std::string& name : kept) publish_file(path / name, "");
  make_folder(path / (".a." + digits));
  remove_temporaries(path);
  BOOST_TEST(list_folder(path).size() == kept.size() + 1);
}

BOOST_FIXTURE_TEST_CASE(a_symbolic_link_is_refused_also_one_that_leads_nowhere, Folder) {
  publish_file(path / "a", "");
  std::filesystem::create_symlink("a", path / "to-a");
  std::filesystem::create_symlink("absent", path / "to-nothing");
  for (const char* const name : {"to-a", "to-nothing"})
    BOOST_CHECK_EXCEPTION(refuse_link(path / name), Error, [&](const Error& error) {
      return error.code() == ExitCode::storage && std::string(error.what()).find(name) != std::string::npos;
    });
  refuse_link(path / "a");
  refuse_link(path / "absent");
}

BOOST_FIXTURE_TEST_CASE(a_file_that_cannot_be_published_leaves_the_target_untouched, Folder) {
  make_folder(path / "a" / "not-empty");  // a folder cannot be replaced by a file
  BOOST_CHECK_EXCEPTION(publish_file(path / "a", "new"), Error,
                        [](const Error& error) { return error.code() == ExitCode::storage; });
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
}

BOOST_FIXTURE_TEST_CASE(a_missing_file_is_an_input_error_that_names_it, Folder) {
  BOOST_CHECK_EXCEPTION(read_file(path / "absent"), Error, [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()).find("absent: no such file") != std::string::npos;
  });
}

BOOST_FIXTURE_TEST_CASE(a_pointer_of_git_lfs_is_not_the_file_and_any_other_text_is, Folder) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
  publish_file(path / "a", pointer);
  const auto is_told = [&](const Error& error) {
    return error.code() == ExitCode::input &&
           error.hint().starts_with("fetch the file: git lfs pull, in " + path.string()) &&
           std::string(error.what()).ends_with("a: it is a Git LFS pointer, not the file itself");
  };
  BOOST_CHECK_EXCEPTION(read_file(path / "a"), Error, is_told);
  BOOST_CHECK_EXCEPTION(MappedFile(path / "a"), Error, is_told);
  for (const std::string& text : {pointer.substr(0, 43), " " + pointer, pointer + std::string(1024, 'x')}) {
    publish_file(path / "a", text);
    BOOST_TEST(read_file(path / "a") == text);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_of_pieces_hashes_like_the_whole) {
  StreamHash stream;
  stream.add("lock");
  stream.add("step");
  BOOST_TEST((stream.digest() == hash128("lockstep")));
  BOOST_TEST((hash_from_hex(to_hex(stream.digest())) == stream.digest()));
}

BOOST_AUTO_TEST_CASE(json_errors_name_file_line_and_column) {
  BOOST_CHECK_EXCEPTION(parse_json("{\n  \"a\": ?}", "x.json"), Error, [](const Error& error) {
    return std::string(error.what()) == "x.json: line 2, column 8: not valid JSON";
  });
}

BOOST_AUTO_TEST_CASE(durations_and_sizes_read_as_people_write_them) {
  BOOST_TEST(parse_seconds("1h30m").value() == 5400);
  BOOST_TEST(parse_seconds("90").value() == 90);
  BOOST_TEST(!parse_seconds("90 parsecs").has_value());
  BOOST_TEST(parse_bytes("64 MiB").value() == 64u << 20);
  BOOST_TEST(!parse_bytes("many").has_value());
  BOOST_TEST(!parse_bytes("inf").has_value());
  BOOST_TEST(!parse_bytes("nan").has_value());
  BOOST_TEST(!parse_bytes("9e30").has_value());
  BOOST_TEST(!parse_bytes("9e15 TiB").has_value());
  BOOST_TEST(human_bytes(412u << 20) == "412 MiB");
}

BOOST_AUTO_TEST_CASE(a_misspelt_name_finds_its_neighbour_and_a_strange_one_nothing) {
  BOOST_TEST(nearest("weight_decy", {"lr", "weight_decay"}).value() == "weight_decay");
  BOOST_TEST(!nearest("zebra", {"lr", "weight_decay"}).has_value());
}

BOOST_AUTO_TEST_CASE(a_name_that_is_far_off_is_no_misspelling) {
  BOOST_TEST(nearest("wieght", {"weight"}).value() == "weight");  // neighbours exchanged: one edit
  BOOST_TEST(nearest("ir", {"lr"}).value() == "lr");
  BOOST_TEST(!nearest("b", {"lr", "a"}).has_value());
  BOOST_TEST(!nearest("ema", {"eps"}).has_value());
  BOOST_TEST(!nearest("bf32", {"bf16"}).has_value());
  BOOST_TEST(!nearest("device", {"decay"}).has_value());
  BOOST_TEST(nearest("seqence_lenght", {"sequence_length"}).value() == "sequence_length");
}

BOOST_AUTO_TEST_CASE(counts_are_told_in_singular_and_plural) {
  BOOST_TEST(counted(1, "rank") == "1 rank");
  BOOST_TEST(counted(0, "rank") == "0 ranks");
  BOOST_TEST(counted(2, "batch") == "2 batches");
  BOOST_TEST(counted(3, "entry") == "3 entries");
  BOOST_TEST(counted(3, "key") == "3 keys");
}

BOOST_AUTO_TEST_CASE(invalid_utf8_is_found_at_its_byte) {
  BOOST_TEST(!first_invalid_utf8("naïve ☃ 𝄞").has_value());
  BOOST_TEST(first_invalid_utf8("ab\xC3(").value() == 2u);
  BOOST_TEST(first_invalid_utf8("\xED\xA0\x80").value() == 0u);  // a surrogate
  BOOST_TEST(first_invalid_utf8("\xC0\xAF").value() == 0u);      // an overlong slash
}

BOOST_FIXTURE_TEST_CASE(who_has_too_many_files_open_is_told_the_limit_and_how_to_raise_it, Folder) {
  publish_file(path / "file", "text");
  struct rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const struct rlimit few{3, before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::string hint;
  try {
    open_regular(path / "file");
  } catch (const Error& error) {
    hint = error.hint();
  }
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  BOOST_TEST(hint == "the limit is 3 open files per process: raise it with 'ulimit -n' in the shell that starts it");
}

BOOST_AUTO_TEST_SUITE_END()
