#include "comm/communicator.hpp"

#include "base/error.hpp"

#include <unistd.h>

#include <array>
#include <cstring>

namespace lockstep {

namespace {

class SoloCommunicator final : public Communicator {
 public:
  explicit SoloCommunicator(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  void barrier() override {}
  void all_reduce(std::span<std::byte>, DType, Reduce) override {}
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::string> all_gather(const std::string& bytes) override { return {bytes}; }
  std::vector<std::string> gather(const std::string& bytes, int) override { return {bytes}; }
  std::unique_ptr<Communicator> split(int, const std::string& name) override {
    return std::make_unique<SoloCommunicator>(name);
  }

 private:
  std::string name_;
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T>(&value, 1));
}

}  // namespace

NonBlocking& Communicator::calls() { fail(ExitCode::bug, "{} has no non-blocking calls", name()); }

void Communicator::abort(int code) noexcept { ::_exit(code); }

double Communicator::all_reduce(double value, Reduce reduce) {
  all_reduce(bytes_of(value), DType::f64, reduce);
  return value;
}

std::int64_t Communicator::all_reduce(std::int64_t value, Reduce reduce) {
  all_reduce(bytes_of(value), DType::i64, reduce);
  return value;
}

void Communicator::all_reduce(std::span<double> values, Reduce reduce) {
  all_reduce(std::as_writable_bytes(values), DType::f64, reduce);
}

std::string Communicator::broadcast(const std::string& text, int root) {
  std::uint64_t length = text.size();
  broadcast(bytes_of(length), root);
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span<char>(result)), root);
  return result;
}

std::unique_ptr<Communicator> solo_communicator() { return std::make_unique<SoloCommunicator>("world"); }

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

}  // namespace lockstep
