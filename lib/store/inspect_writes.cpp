// What checkpoint-inspect is asked to write: VIEW.h5, a checkpoint with another value.
#include "base/words.hpp"
#include "store/checkpoint_view.hpp"
#include "store/edit_values.hpp"
#include "store/inspect.hpp"

namespace lockstep {

InspectAnswer rebuild_view(const CheckpointReader& checkpoint) {
  const WrittenView view = write_view(checkpoint);
  const Path path = checkpoint.path() / view_file;
  InspectAnswer answer{ExitCode::done,
                       fmt::format("{}: {} and {} of {}\n", path.string(), counted(view.tensors, "tensor"),
                                   counted(view.aliases, "alias"), counted(view.files, "part")),
                       {{"path", path.string()},
                        {"tensors", view.tensors},
                        {"aliases", view.aliases},
                        {"files", view.files},
                        {"absent", view.absent},
                        {"missing", Json::object()},
                        {"left_out", view.left_out}}};
  std::int64_t elements = 0;
  for (const auto& [tensor, missing] : view.gaps) {
    answer.json["missing"][tensor] = missing;
    elements += missing;
  }
  for (const std::string& part : view.absent) answer.warnings.push_back(part);
  if (elements > 0) {
    answer.warnings.push_back(
        fmt::format("{} of {} are in missing parts: they read as NaN, or as 0 for types without "
                    "NaN",
                    counted(elements, "element"), counted(view.gaps.size(), "tensor")));
  }
  for (const std::string& name : view.left_out) answer.warnings.push_back(name);
  if (view.files > most_mapped_files) {
    answer.warnings.push_back(
        fmt::format("the view has {} parts, which may be more files than a tool can open: "
                    "checkpoint-reshard --consolidate writes fewer",
                    view.files));
  }
  return answer;
}

InspectAnswer set_value(const CheckpointReader& checkpoint, const std::string& name, const Json& value,
                        const Path& output) {
  const Edited edited = write_edited(checkpoint, name, value, output);
  Json json = {{"source", checkpoint.path().string()},
               {"output", output.string()},
               {"edit", edited.entry},
               {"linked", edited.linked},
               {"copied", edited.copied}};
  return {ExitCode::done,
          fmt::format("{}: {} was {}, is {}; {} shared, {} copied\n", output.string(), name,
                      to_text(edited.entry.at("old")), to_text(value),
                      counted(static_cast<std::int64_t>(edited.linked), "part"), edited.copied),
          std::move(json)};
}

}  // namespace lockstep
