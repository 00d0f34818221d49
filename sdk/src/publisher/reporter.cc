#include "publisher/reporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::publisher {

Reporter::Reporter(const Options& options, observe::EventRecorder* events, Logger logger)
    : driver_name_(options.driver_name),
      node_name_(options.node_name),
      events_(events),
      logger_(std::move(logger)) {}

void Reporter::Show(std::vector<Report> reports, const std::string& node_uid) {
  for (const Report& report : reports) {
    const inventory::Finding& finding = report.finding;
    const bool known = std::any_of(shown_.begin(), shown_.end(),
                                   [&](const Report& shown) { return shown.finding == finding; });
    if (known) continue;
    logger_.Warn(absl::StrCat("not published as discovered: ", finding.action),
                 {{"driver", driver_name_},
                  {"pool", finding.pool},
                  {"device", finding.device},
                  {"field", finding.field},
                  {"value", finding.value},
                  {"error", finding.problem}});
    Event(node_uid, report.reason,
          absl::StrCat(driver_name_, ": pool ", finding.pool,
                       finding.device.empty() ? "" : absl::StrCat(" device ", finding.device),
                       finding.field.empty() ? "" : absl::StrCat(" ", finding.field),
                       finding.value.empty() ? "" : absl::StrCat(" = \"", finding.value, "\""),
                       ": ", finding.problem, "; ", finding.action));
  }
  shown_ = std::move(reports);
}

void Reporter::PassEnded(const absl::Status& status, const std::string& node_uid) {
  if (absl::IsCancelled(status)) return;
  if (status.ok()) {
    if (failing_) logger_.Info("publishing works again", {{"driver", driver_name_}});
    failing_ = false;
    failing_with_.clear();
    return;
  }
  const std::string text(status.message());
  if (failing_ && text == failing_with_) return;
  if (!failing_) {
    logger_.Warn("publishing fails; it is tried again",
                 {{"driver", driver_name_}, {"error", status.ToString()}});
    Event(node_uid, "PublishFailed", absl::StrCat(driver_name_, ": ", text));
  }
  failing_ = true;
  failing_with_ = text;
}

std::vector<inventory::Finding> Reporter::findings() const {
  std::vector<inventory::Finding> findings;
  findings.reserve(shown_.size());
  for (const Report& report : shown_) findings.push_back(report.finding);
  return findings;
}

void Reporter::Event(const std::string& node_uid, const std::string& reason,
                     const std::string& note) {
  if (events_ == nullptr) return;
  observe::ObjectReference node;
  node.api_version = "v1";
  node.kind = "Node";
  node.name = node_name_;
  node.uid = node_uid;
  events_->Record(observe::EventType::kWarning, node, reason, "Publish", note);
}

}  // namespace dra::publisher
