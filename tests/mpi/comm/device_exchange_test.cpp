// Exchanges of device memory from device to device, on the device of tests with its functions of NCCL: every operation
// against brute force, and many of them on all lanes and groups in one order.
#include "tensor/device_exchange.hpp"
#include "harness/mpi_test.hpp"
#include "tensor/arena.hpp"
#include "transport_tasks.hpp"

#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(device_exchange)

namespace {

using Kind = OperationRecord::Kind;

constexpr std::array exchanged{DType::f64, DType::f32, DType::bf16};

/// Memory of the device with a copy of `bytes`.
struct OnDevice {
  explicit OnDevice(const Bytes& bytes)
      : tensor(empty_in(Arena::device, std::max<std::int64_t>(std::ssize(bytes), 1), at::kByte)),
        region(part_of(region_of(tensor, Arena::device), 0, bytes.size())) {
    write_region(bytes, region);
  }
  Bytes read() const {
    Bytes bytes(region.bytes);
    read_region(region, bytes);
    return bytes;
  }
  at::Tensor tensor;
  Region region;
};

struct Job {
  explicit Job(const std::vector<std::vector<AxisName>>& groups, const Mesh& mesh,
               std::int64_t packing_bytes = DeviceExchange::packing_bytes)
      : session(world().split(0, "world")),
        transport(session, mesh, {"first", "second"}, groups, {}, with(packing_bytes), [](int, int) { return true; }) {}
  static DeviceExchange with(std::int64_t packing_bytes) {
    DeviceExchange device = exchange_of_device();
    device.most_packed_bytes = packing_bytes;
    return device;
  }
  Session session;
  Transport transport;
};

}  // namespace

LOCKSTEP_MPI_TEST(every_operation_does_what_brute_force_says_on_the_device, test::at_least(2)) {
  BOOST_REQUIRE(nccl_in_use() != nullptr);
  const auto ranks = static_cast<std::size_t>(world().size()), rank = static_cast<std::size_t>(world().rank());
  Job job({{"all"}, {}}, make_mesh("world", {{"all", world().size()}}));
  std::uint64_t seed = 1;
  for (const Kind kind : kinds)
    for (const DType dtype : exchanged)
      for (const int group : {0, 1})
        for (const std::int64_t length : {0, 1, 3, 64, 1000, 5003, 100003}) {
          if (group == 1 && kind == Kind::send) continue;  // there is nobody to send to
          Task task = make_task(kind, 0, group, group == 0 ? ranks : 1, group == 0 ? rank : 0, length, dtype, ++seed);
          if (!task.issue) continue;
          const OnDevice in(*task.in), out(*task.out);
          job.transport.wait(task.issue(job.transport, in.region, out.region));
          BOOST_TEST((out.read() == task.expected),
                     name_of(kind) << " of " << length << " " << name_of(dtype) << " in group " << group);
        }
}

LOCKSTEP_MPI_TEST(operations_larger_than_the_packing_memory_go_in_portions, test::at_least(2)) {
  BOOST_REQUIRE(nccl_in_use() != nullptr);
  const auto ranks = static_cast<std::size_t>(world().size()), rank = static_cast<std::size_t>(world().rank());
  for (const std::int64_t packing_bytes : {1, 5000, 20000}) {
    Job job({{"all"}}, make_mesh("world", {{"all", world().size()}}), packing_bytes);
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter})
      for (const DType dtype : exchanged) {
        Task task = make_task(kind, 0, 0, ranks, rank, 5003, dtype, 99);
        const OnDevice in(*task.in), out(*task.out);
        job.transport.wait(task.issue(job.transport, in.region, out.region));
        BOOST_TEST((out.read() == task.expected), name_of(kind) << " of " << name_of(dtype) << " in " << packing_bytes);
      }
  }
}

LOCKSTEP_MPI_TEST(operations_of_all_lanes_and_groups_run_in_the_order_of_issue, test::at_least(2)) {
  BOOST_REQUIRE(nccl_in_use() != nullptr);
  const int size = world().size();
  const int inner = size % 2 == 0 ? 2 : size;
  const Mesh mesh = make_mesh("world", {{"outer", size / inner}, {"inner", inner}});
  const std::vector<std::vector<AxisName>> groups{{"outer", "inner"}, {"inner"}, {"outer"}};
  Job job(groups, mesh);
  Random random(4);  // equal on all ranks
  std::vector<Task> tasks;
  std::vector<std::pair<OnDevice, OnDevice>> memory;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 120; ++i) {
    const int group = static_cast<int>(any(random, 0, 2)), lane = static_cast<int>(any(random, 0, 1));
    const std::vector<Rank> members = group_along(mesh, world().rank(), groups[static_cast<std::size_t>(group)]);
    const auto mine = static_cast<std::size_t>(std::ranges::find(members, world().rank()) - members.begin());
    const Kind kind = kinds[static_cast<std::size_t>(any(random, 0, std::ssize(kinds) - 1))];
    const DType dtype = exchanged[static_cast<std::size_t>(any(random, 0, 2))];
    const std::int64_t length = any(random, 0, 3000);
    if (members.size() == 1 && kind == Kind::send) continue;
    tasks.push_back(
        make_task(kind, lane, group, members.size(), mine, length, dtype, static_cast<std::uint64_t>(i) + 5));
    const auto& [in, out] = memory.emplace_back(OnDevice(*tasks.back().in), OnDevice(*tasks.back().out));
    tickets.push_back(tasks.back().issue ? tasks.back().issue(job.transport, in.region, out.region) : Ticket{});
  }
  for (std::size_t i = tasks.size(); i-- > 0;) job.transport.wait(tickets[i]);
  for (std::size_t i = 0; i < tasks.size(); ++i) BOOST_TEST((memory[i].second.read() == tasks[i].expected), i);
  job.transport.drain();
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  for (const OperationRecord& record : records) BOOST_TEST(record.end_s >= record.begin_s);
}

namespace {

int connected_ranks = 0;

NcclResult connect_and_count(NcclRanks* ranks, int count, const NcclId* id, int rank) {
  ++connected_ranks;
  return nccl_in_use()->connect(ranks, count, id, rank);
}

}  // namespace

LOCKSTEP_MPI_TEST(groups_of_equal_ranks_share_a_communicator, test::at_least(2)) {
  BOOST_REQUIRE(nccl_in_use() != nullptr);
  NcclTable counting = *nccl_in_use();
  counting.connect = connect_and_count;
  DeviceExchange device = exchange_of_device();
  device.nccl = &counting;
  connected_ranks = 0;
  Session session(world().split(0, "world"));
  const Mesh mesh = make_mesh("world", {{"one", 1}, {"all", world().size()}});
  Transport transport(session, mesh, {"first", "second"}, {{"all"}, {"one"}, {"one", "all"}}, {}, std::move(device),
                      [](int, int) { return true; });
  BOOST_TEST(connected_ranks == 1);
  const auto ranks = static_cast<std::size_t>(world().size()), rank = static_cast<std::size_t>(world().rank());
  for (const int group : {0, 2, 0}) {
    Task task = make_task(Kind::all_reduce, 1, group, ranks, rank, 1000, DType::f32, 3);
    const OnDevice in(*task.in), out(*task.out);
    transport.wait(task.issue(transport, in.region, out.region));
    BOOST_TEST((out.read() == task.expected), group);
  }
}

LOCKSTEP_MPI_TEST(waiting_for_an_operation_of_the_device_does_not_stop_the_host, test::at_least(2)) {
  BOOST_REQUIRE(nccl_in_use() != nullptr);
  Job job({{"all"}}, make_mesh("world", {{"all", world().size()}}));
  const OnDevice values(values_of(1, world().rank(), 1000, DType::f32));
  const std::int64_t before = this_device().counts().waits;
  // No rank issues before rank 0 has waited: a wait that stopped the host would never end.
  if (world().rank() == 0) job.transport.wait(job.transport.all_reduce(0, 0, values.region, DType::f32, Reduce::sum));
  world().barrier();
  if (world().rank() != 0) job.transport.wait(job.transport.all_reduce(0, 0, values.region, DType::f32, Reduce::sum));
  BOOST_TEST(this_device().counts().waits == before);
  std::vector<Bytes> all;
  for (int rank = 0; rank < world().size(); ++rank) all.push_back(values_of(1, rank, 1000, DType::f32));
  BOOST_TEST((values.read() == sum_of(all, DType::f32)));
}

BOOST_AUTO_TEST_SUITE_END()
