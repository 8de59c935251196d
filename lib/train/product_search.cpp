#include "train/product_search.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "device/device_plugin.hpp"
#include "options/ranges.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

constexpr int file_format = 1;
constexpr int not_timed = -1;  // in place of the number of a proposal
constexpr const char* how_to_search_anew = "remove the file: algorithms are then chosen anew";

/// Calls `work`, which reads the file; its errors say how a run starts without it.
template <class Work>
auto reading(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (!error.hint().empty()) throw;
    throw Error(error.code(), error.what(), how_to_search_anew);
  }
}

/// The member of an object. Throws Error(input) if it is missing or has another type.
const Json& member(const Json& object, const char* key, Json::value_t type, const std::string& origin) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ExitCode::input, "{}: {} is missing", origin, key);
  if (found->type() != type)
    fail(ExitCode::input, "{}: {} is {} where {} is expected", origin, key, found->type_name(), Json(type).type_name());
  return *found;
}

std::int64_t number_within(const Json& value, const std::string& what, std::int64_t least, std::int64_t most) {
  const auto number = integer_from<std::int64_t>(value, what);
  if (number < least || number > most)
    fail(ExitCode::input, "{} is {}: it has to be from {} to {}", what, number, least, most);
  return number;
}

Json to_json(const DeviceKind& kind) {
  return {{"device", kind.device}, {"driver", kind.versions.driver}, {"library", kind.versions.library}};
}

DeviceKind kind_from(const Json& json, const std::string& origin) {
  const auto text = [&](const char* key) {
    return member(json, key, Json::value_t::string, origin).get<std::string>();
  };
  return {.device = text("device"), .versions = {.driver = text("driver"), .library = text("library")}};
}

ProductChoices choices_from(const Json& entry, const std::string& origin) {
  ProductChoices choices{.kind = kind_from(entry, origin)};
  const std::string of_kind = fmt::format("{}: {}", origin, text_of(choices.kind));
  const auto after = entry.find("after_step");
  if (after == entry.end()) fail(ExitCode::input, "{}: after_step is missing", of_kind);
  choices.after_step =
      number_within(*after, fmt::format("{}: after_step", of_kind), 1, static_cast<std::int64_t>(most_count));
  const Json& products = member(entry, "products", Json::value_t::object, of_kind);
  if (products.empty()) fail(ExitCode::input, "{}: products is empty", of_kind);
  for (const auto& [product, proposal] : products.items()) {
    const std::string what = fmt::format("{}: the proposal for '{}'", of_kind, product);
    choices.proposals.emplace(product,
                              static_cast<int>(number_within(proposal, what, 0, DeviceProducts::proposals - 1)));
  }
  return choices;
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
  return to_text(Json{{"format", file_format}, {"devices", std::move(devices)}}, 2) + "\n";
}

std::vector<ProductChoices> parse_choices(const std::string& text, const std::string& origin) {
  return reading([&] {
    const Json document = parse_json(text, origin);
    const auto format = document.find("format");
    if (format == document.end())
      fail(ExitCode::input, "{} has no format; this program reads format {}", origin, file_format);
    if (*format != file_format)
      fail(ExitCode::input, "{} has format {}; this program reads format {}", origin, to_text(*format), file_format);
    std::vector<ProductChoices> all;
    for (const Json& entry : member(document, "devices", Json::value_t::array, origin)) {
      ProductChoices one = choices_from(entry, origin);
      if (std::ranges::find(all, one.kind, &ProductChoices::kind) != all.end())
        fail(ExitCode::input, "{} names {} twice", origin, text_of(one.kind));
      all.push_back(std::move(one));
    }
    return all;
  });
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
    kinds_.push_back(kind_from(parse_json(told, "the device of a rank"), "the device of a rank"));
  const Path path = folder_ / file;
  const std::string text = run_on_rank0(world, "read the choices of algorithms", [&] {
    return reading([&] {
      if (folder_.empty() || !is_there(path)) return std::string();
      return to_json_text(parse_choices(read_file(path), path.string()));
    });
  });
  together(world, "use the choices of algorithms", [&] {
    if (!text.empty()) choices_ = parse_choices(text, path.string());
    use_choices_made_at(0, step);
  });
  if (world.rank() != 0 || choices_.empty()) return;
  for (const int rank : leaders()) {
    const DeviceKind& kind = kinds_[static_cast<std::size_t>(rank)];
    if (const ProductChoices* const found = choices_of(kind))
      log_.info("{} on {} {} the algorithms of {}{}", counted(std::ssize(found->proposals), "product"), text_of(kind),
                found->proposals.size() == 1 ? "has" : "have", path.string(),
                found->after_step <= step
                    ? std::string()
                    : fmt::format(" from step {} on, and the first proposal until then; without the file algorithms "
                                  "are chosen anew after the next step",
                                  found->after_step + 1));
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
    ProductChoices made{.kind = kinds_[static_cast<std::size_t>(leader)], .after_step = step, .proposals = {}};
    std::istringstream numbers(told[static_cast<std::size_t>(leader)]);
    for (const std::string& product : of_leader) {
      int proposal = not_timed;
      numbers >> proposal;
      if (proposal != not_timed) made.proposals.emplace(product, proposal);
    }
    if (world.rank() == 0) tell_choices(made, std::ssize(of_leader), monotonic_seconds() - began_s);
    if (!made.proposals.empty()) choices_.push_back(std::move(made));
  }
  together(world, "use the choices of algorithms", [&] { use_choices_made_at(step, step); });
  if (world.rank() == 0 && !folder_.empty() && !choices_.empty()) write();
}

void ProductSearch::tell_choices(const ProductChoices& made, std::int64_t products, double seconds) const {
  const auto others = std::ranges::count_if(made.proposals, [](const auto& one) { return one.second > 0; });
  const std::int64_t untimed = products - std::ssize(made.proposals);
  log_.info("chose the algorithms of {} on {} in {}: {} of them not the first proposal{}",
            counted(std::ssize(made.proposals), "product"), text_of(made.kind), human_seconds(seconds), others,
            untimed == 0 ? std::string()
                         : fmt::format("; no memory to time {}: the first proposal", counted(untimed, "product")));
}

void ProductSearch::write() const {
  try {
    publish_file(folder_ / file, to_json_text(choices_));
  } catch (const Error& error) {
    log_.warning("{} was not written, and a resumed run chooses anew: {}", file, error.what());
  }
}

}  // namespace lockstep
