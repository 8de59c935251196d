#include "comm/peer_memory.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <vector>

using namespace lockstep;

namespace {

/// Another process that holds `values` and waits; it ends with this object.
class Child {
 public:
  explicit Child(std::vector<std::uint32_t>& values) {
    process_ = ::fork();
    if (process_ == 0) {
      for (std::uint32_t& value : values) value *= 3;  // in its own memory only
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    ::waitpid(process_, &status, WUNTRACED);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Peer peer() const { return {.process = process_}; }
  void end() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

/// Systems may forbid to read other processes; then there is nothing to test.
bool forbidden() {
  if (is_readable(this_process())) return false;
  BOOST_TEST_MESSAGE("this system does not let a process read the memory of another");
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(peer_memory)

BOOST_AUTO_TEST_CASE(what_another_process_holds_is_read_and_one_that_ended_is_told) {
  if (forbidden()) return;
  std::vector<std::uint32_t> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i);
  Child child(values);
  const Peer peer = child.peer();
  std::vector<std::uint32_t> read(values.size() - 5);
  const auto address = reinterpret_cast<std::uint64_t>(values.data() + 5);
  const RemoteRegion region{address, std::as_writable_bytes(std::span(read))};
  BOOST_TEST(read_memory(peer, {&region, 1}));
  bool equal = true;
  for (std::size_t i = 0; i < read.size(); ++i) equal = equal && read[i] == 3 * values[i + 5];
  BOOST_TEST(equal);
  child.end();
  BOOST_TEST(!read_memory(peer, {&region, 1}));
}

BOOST_AUTO_TEST_CASE(many_regions_are_read_at_once_in_any_order_and_of_any_length) {
  if (forbidden()) return;
  std::vector<std::uint32_t> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i);
  Child child(values);
  std::vector<std::uint32_t> read(values.size());
  std::vector<RemoteRegion> regions;
  const auto add = [&](std::size_t begin, std::size_t end) {
    regions.push_back({reinterpret_cast<std::uint64_t>(values.data() + begin),
                       std::as_writable_bytes(std::span(read).subspan(begin, end - begin))});
  };
  for (std::size_t i = 1000; i > 0; --i) {  // more than one system call takes; every third is empty
    add(100 * i - 60, 100 * i);
    if (i % 3 == 0) add(100 * i, 100 * i);
  }
  BOOST_TEST(read_memory(child.peer(), regions));
  bool right = true;
  for (std::size_t i = 0; i < read.size(); ++i) right = right && read[i] == (i % 100 < 40 ? 0 : 3 * values[i]);
  BOOST_TEST(right);
  child.end();
}

BOOST_AUTO_TEST_CASE(a_place_that_does_not_exist_is_an_error) {
  if (forbidden()) return;
  std::vector<std::byte> into(16);
  const RemoteRegion region{64, into};
  BOOST_CHECK_THROW(read_memory(this_process(), {&region, 1}), Error);
}

BOOST_AUTO_TEST_CASE(a_process_with_another_number_at_its_place_is_not_taken_for_the_peer) {
  if (forbidden()) return;
  Peer other = this_process();
  other.number += 1;
  BOOST_TEST(!is_readable(other));
  Peer nobody = this_process();
  nobody.process = 0x7ffffff;
  BOOST_TEST(!is_readable(nobody));
}

BOOST_AUTO_TEST_SUITE_END()
