#include "train/product_search.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "device/device_plugin.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

constexpr int not_timed = -1;  // in place of the number of a proposal
constexpr const char* how_to_search_anew = "remove the file: algorithms are then chosen anew";

Json to_json(const DeviceKind& kind) {
  return {{"device", kind.device}, {"driver", kind.versions.driver}, {"library", kind.versions.library}};
}

DeviceKind kind_from(const Json& json) {
  return {
      .device = json.at("device").get<std::string>(),
      .versions = {.driver = json.at("driver").get<std::string>(), .library = json.at("library").get<std::string>()}};
}

DeviceProducts& products_of_device() { return device_plugin()->products(); }

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.insert(line);
  return lines;
}

/// The number of the fastest proposal, or that there is no memory to find it.
int timed(const std::string& product) {
  try {
    return products_of_device().fastest(product);
  } catch (const c10::OutOfMemoryError&) {
    return not_timed;
  }
}

}  // namespace

std::string text_of(const DeviceKind& kind) {
  return fmt::format("{} ({}, driver for {})", kind.device, kind.versions.library, kind.versions.driver);
}

std::string to_json_text(const std::vector<ProductChoices>& choices) {
  Json devices = Json::array();
  for (const ProductChoices& one : choices) {
    Json entry = to_json(one.kind);
    entry["after_step"] = one.after_step;
    entry["products"] = Json::object();
    for (const auto& [product, proposal] : one.proposals) entry["products"][product] = proposal;
    devices.push_back(std::move(entry));
  }
  return to_text(Json{{"devices", std::move(devices)}}, 2) + "\n";
}

std::vector<ProductChoices> parse_choices(const std::string& text, const std::string& origin) {
  std::vector<ProductChoices> all;
  try {
    const Json whole = parse_json(text, origin);
    for (const Json& entry : whole.at("devices")) {
      ProductChoices& one = all.emplace_back();
      one.kind = kind_from(entry);
      one.after_step = entry.at("after_step").get<std::int64_t>();
      for (const auto& [product, proposal] : entry.at("products").items()) {
        const std::int64_t number = proposal.is_number_integer() ? proposal.get<std::int64_t>() : not_timed;
        if (number < 0 || number >= DeviceProducts::proposals)
          throw Error(ExitCode::input, fmt::format("{}: {} is no number of a proposal", origin, to_text(proposal)));
        one.proposals.emplace(product, static_cast<int>(number));
      }
    }
  } catch (const Json::exception& error) {
    throw Error(ExitCode::input, fmt::format("{} has no choices of algorithms: {}", origin, error.what()),
                how_to_search_anew);
  } catch (const Error& error) {
    throw Error(ExitCode::input, error.what(), how_to_search_anew);
  }
  return all;
}

ProductSearch::ProductSearch(const TrainConfig& config, Path folder, Session& session, Log& log)
    : is_on_(config.precision.product_search && !this_device().properties().is_host),
      folder_(std::move(folder)),
      session_(session),
      log_(log) {}

const ProductChoices* ProductSearch::choices_of(const DeviceKind& kind) const {
  const auto found = std::ranges::find(choices_, kind, &ProductChoices::kind);
  return found == choices_.end() ? nullptr : &*found;
}

std::vector<int> ProductSearch::leaders() const {
  std::vector<int> first;
  for (auto rank = kinds_.begin(); rank != kinds_.end(); ++rank)
    if (std::find(kinds_.begin(), rank, *rank) == rank) first.push_back(static_cast<int>(rank - kinds_.begin()));
  return first;
}

const DeviceKind& ProductSearch::own_kind() const { return kinds_[static_cast<std::size_t>(session_.world().rank())]; }

void ProductSearch::use_choices_made_at(std::int64_t first, std::int64_t last) {
  const ProductChoices* const own = choices_of(own_kind());
  if (own == nullptr || own->after_step < first || own->after_step > last) return;
  try {
    for (const auto& [product, proposal] : own->proposals) products_of_device().use(product, proposal);
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    throw Error(ExitCode::input, fmt::format("{}: {}", (folder_ / file).string(), error.what()), how_to_search_anew);
  }
}

void ProductSearch::begin(std::int64_t step) {
  if (!is_on_) return;
  Communicator& world = session_.world();
  DeviceKind mine{.device = this_device().properties().name, .versions = {}};
  together(world, "ask for the library of matrix products", [&] { mine.versions = products_of_device().versions(); });
  for (const std::string& told : world.all_gather(to_text(to_json(mine))))
    kinds_.push_back(kind_from(parse_json(told, "the device of a rank")));
  const Path path = folder_ / file;
  const std::string text = run_on_rank0(world, "read the choices of algorithms", [&] {
    return folder_.empty() || !is_there(path) ? std::string() : read_file(path);
  });
  together(world, "use the choices of algorithms", [&] {
    if (!text.empty()) choices_ = parse_choices(text, path.string());
    use_choices_made_at(0, step);
  });
  if (world.rank() != 0 || choices_.empty()) return;
  for (const int rank : leaders()) {
    const DeviceKind& kind = kinds_[static_cast<std::size_t>(rank)];
    if (const ProductChoices* const found = choices_of(kind))
      log_.info("{} on {} {} the algorithms of {}", counted(std::ssize(found->proposals), "product"), text_of(kind),
                found->proposals.size() == 1 ? "has" : "have", path.string());
    else
      log_.info("{} is for {}, not for {}: algorithms for it are chosen anew after the next step", path.string(),
                text_of(choices_.front().kind), text_of(kind));
  }
}

void ProductSearch::after_step(std::int64_t step) {
  if (!is_on_) return;
  const bool is_first = std::exchange(is_first_step_, false);
  const auto has_choices = [&](const DeviceKind& kind) { return choices_of(kind) != nullptr; };
  if (is_first && std::ranges::any_of(kinds_, has_choices)) tell_unknown();
  // A run that began with the file of another one reaches the step of its choices later.
  if (std::ranges::find(choices_, step, &ProductChoices::after_step) != choices_.end())
    together(session_.world(), "use the choices of algorithms", [&] { use_choices_made_at(step, step); });
  if (is_first && !std::ranges::all_of(kinds_, has_choices)) search(step);
}

void ProductSearch::tell_unknown() {
  Communicator& world = session_.world();
  std::int64_t unknown = 0;
  together(world, "compare products", [&] {
    if (const ProductChoices* const own = choices_of(own_kind()))
      unknown = std::ranges::count_if(products_of_device().computed(),
                                      [&](const std::string& product) { return !own->proposals.contains(product); });
  });
  unknown = world.all_reduce(unknown, Reduce::max);
  if (unknown > 0 && world.rank() == 0)
    log_.info("{} of a rank are not in {} and take the first proposal; without the file all are chosen anew",
              counted(unknown, "product"), (folder_ / file).string());
}

void ProductSearch::search(std::int64_t step) {
  Communicator& world = session_.world();
  const double began_s = monotonic_seconds();
  std::string computed;
  together(world, "list products", [&] { computed = join(products_of_device().computed(), "\n"); });
  const std::vector<std::string> of_ranks = world.all_gather(computed);
  std::vector<int> searching = leaders();
  std::erase_if(searching, [&](int rank) { return choices_of(kinds_[static_cast<std::size_t>(rank)]) != nullptr; });
  std::map<int, std::set<std::string>> products;  // by the rank that times them
  for (std::size_t rank = 0; rank < kinds_.size(); ++rank)
    for (const int leader : searching)
      if (kinds_[static_cast<std::size_t>(leader)] == kinds_[rank]) products[leader].merge(lines_of(of_ranks[rank]));
  std::size_t most = 0;
  for (const auto& [leader, of_leader] : products) most = std::max(most, of_leader.size());

  const auto mine = products.find(world.rank());
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < most; ++i)
    together(world, "time the algorithms of a product", [&] {
      session_.enter(Phase::start_up, step);  // each product has the limit of a phase
      if (mine == products.end() || i >= mine->second.size()) return;
      const auto& product = *std::next(mine->second.begin(), static_cast<std::ptrdiff_t>(i));
      chosen.push_back(std::to_string(timed(product)));
    });

  const std::vector<std::string> told = world.all_gather(join(chosen, "\n"));
  for (const auto& [leader, of_leader] : products) {
    ProductChoices& made = choices_.emplace_back();
    made.kind = kinds_[static_cast<std::size_t>(leader)];
    made.after_step = step;
    std::istringstream numbers(told[static_cast<std::size_t>(leader)]);
    for (const std::string& product : of_leader) {
      int proposal = not_timed;
      numbers >> proposal;
      if (proposal != not_timed) made.proposals.emplace(product, proposal);
    }
    if (world.rank() != 0) continue;
    const auto others = std::ranges::count_if(made.proposals, [](const auto& one) { return one.second > 0; });
    log_.info("chose the algorithms of {} on {} in {}: {} of them not the first proposal{}",
              counted(std::ssize(made.proposals), "product"), text_of(made.kind),
              human_seconds(monotonic_seconds() - began_s), others,
              made.proposals.size() == of_leader.size()
                  ? std::string()
                  : fmt::format("; no memory to time {}",
                                counted(std::ssize(of_leader) - std::ssize(made.proposals), "product")));
  }
  together(world, "use the choices of algorithms", [&] { use_choices_made_at(step, step); });
  if (world.rank() == 0 && !folder_.empty()) write();
}

void ProductSearch::write() const {
  try {
    publish_file(folder_ / file, to_json_text(choices_));
  } catch (const Error& error) {
    log_.warning("{} was not written, and a resumed run chooses anew: {}", file, error.what());
  }
}

}  // namespace lockstep
