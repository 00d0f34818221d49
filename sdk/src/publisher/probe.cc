#include "dra/publisher/probe.h"

#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

using loader::FieldSupport;
using loader::ServerFields;

bool IsPresent(const Json* value) {
  if (value == nullptr || value->is_null()) return false;
  return value->is_boolean() ? value->get<bool>() : !value->empty();
}

// One field to ask for: what to put into the slice, and where to look in the answer.
struct Question {
  FieldSupport ServerFields::*support;
  Json device;       // members of the probe device; null: none
  Json spec;         // further members of the spec
  const char* path;  // the member to look for in the answered device, or spec without a device
};

std::vector<Question> DeviceQuestions() {
  return {
      {&ServerFields::taints,
       {{"taints", {{{"key", "dra-probe"}, {"effect", "NoSchedule"}}}}},
       Json::object(),
       "taints"},
      {&ServerFields::multiple_allocations,
       {{"allowMultipleAllocations", true},
        {"capacity",
         {{"probe",
           {{"value", "2"}, {"requestPolicy", {{"default", "1"}, {"validValues", {"1", "2"}}}}}}}}},
       Json::object(),
       "allowMultipleAllocations"},
      {&ServerFields::binding_conditions,
       {{"bindsToNode", true},
        {"bindingConditions", {"dra-probe-ready"}},
        {"bindingFailureConditions", {"dra-probe-failed"}}},
       Json::object(),
       "bindingConditions"},
      {&ServerFields::counters,
       {{"consumesCounters",
         {{{"counterSet", "probe"}, {"counters", {{"probe", {{"value", "1"}}}}}}}}},
       Json::object(),
       "consumesCounters"},
      {&ServerFields::node_allocatable,
       {{"nodeAllocatableResources", {{"memory", {{"overhead", {{"perPod", "1Mi"}}}}}}}},
       Json::object(),
       "nodeAllocatableResources"},
      {&ServerFields::skip_node_operations,
       nullptr,
       {{"skipNodeOperations", {"*"}}},
       "skipNodeOperations"},
  };
}

class Prober {
 public:
  Prober(kube::ApiClient& api, absl::string_view driver_name, absl::string_view node_name,
         const Call& call)
      : api_(api), driver_name_(driver_name), node_name_(node_name), call_(call) {}

  ProbeResult Run() {
    const std::vector<Question> questions = DeviceQuestions();
    if (!Ask(questions)) {
      for (const Question& question : questions) {
        // Refused alone as well: the server knows the field and does not take this form of it.
        if (!Ask({question})) result_.fields.*question.support = FieldSupport::kDropped;
      }
    }
    AskCounters();
    AskListAttribute();
    AskTaintEffectNone();
    return std::move(result_);
  }

 private:
  Json Slice(Json spec) {
    spec["driver"] = driver_name_;
    spec["nodeName"] = node_name_;
    spec["pool"] = {{"name", node_name_}, {"generation", 0}, {"resourceSliceCount", 1}};
    return {{"apiVersion", "resource.k8s.io/v1"},
            {"kind", "ResourceSlice"},
            {"metadata", {{"generateName", GenerateName(0, driver_name_, node_name_)}}},
            {"spec", std::move(spec)}};
  }

  // The answer's spec; an error is noted unless the slice was refused as invalid.
  absl::StatusOr<Json> DryRun(Json spec) {
    kube::WriteOptions options;
    options.dry_run = true;
    options.field_validation =
        "Ignore";  // a field that the server does not know is an answer, no reason to warn
    auto answer = api_.Create(kube::ResourceSlices(), "", Slice(std::move(spec)), options, call_);
    if (!answer.ok()) {
      if (!absl::IsInvalidArgument(answer.status()) && result_.error.ok()) {
        result_.error = Annotate(answer.status(), "dry-run create of a resource slice");
      }
      return answer.status();
    }
    const Json* stored = Find(*answer, "spec");
    return stored == nullptr ? Json::object() : *stored;
  }

  // False if the slice was refused as invalid.
  bool Ask(const std::vector<Question>& questions) {
    Json spec = Json::object();
    Json devices = Json::array();
    for (size_t i = 0; i < questions.size(); ++i) {
      spec.update(questions[i].spec);
      Json device = {{"name", "probe-" + std::to_string(i)}};
      if (questions[i].device.is_object()) device.update(questions[i].device);
      devices.push_back(std::move(device));
    }
    spec["devices"] = std::move(devices);
    const auto stored = DryRun(std::move(spec));
    if (!stored.ok()) return !absl::IsInvalidArgument(stored.status());
    const Json* stored_devices = Find(*stored, "devices");
    for (size_t i = 0; i < questions.size(); ++i) {
      const Json* holder = &*stored;
      if (questions[i].device.is_object()) {
        const bool there =
            stored_devices != nullptr && stored_devices->is_array() && i < stored_devices->size();
        holder = there ? &(*stored_devices)[i] : nullptr;
      }
      const bool kept = holder != nullptr && IsPresent(Find(*holder, questions[i].path));
      result_.fields.*questions[i].support = kept ? FieldSupport::kKept : FieldSupport::kDropped;
    }
    return true;
  }

  // Consumption is asked for with the devices; both halves have to be kept.
  void AskCounters() {
    if (result_.fields.counters != FieldSupport::kKept) return;
    const auto stored = DryRun(
        {{"sharedCounters", {{{"name", "probe"}, {"counters", {{"probe", {{"value", "1"}}}}}}}}});
    if (stored.ok()) {
      if (!IsPresent(Find(*stored, "sharedCounters"))) {
        result_.fields.counters = FieldSupport::kDropped;
      }
    } else {
      result_.fields.counters = absl::IsInvalidArgument(stored.status()) ? FieldSupport::kDropped
                                                                         : FieldSupport::kUnknown;
    }
  }

  void AskListAttribute() {
    const auto stored =
        DryRun({{"devices",
                 {{{"name", "probe"}, {"attributes", {{"probe", {{"strings", {"a", "b"}}}}}}}}}});
    if (!stored.ok()) {
      if (absl::IsInvalidArgument(stored.status())) {
        result_.fields.list_attributes = FieldSupport::kDropped;
      }
      return;
    }
    const Json* devices = Find(*stored, "devices");
    const Json* device = devices != nullptr && devices->is_array() && !devices->empty()
                             ? &devices->front()
                             : nullptr;
    const Json* attributes = device == nullptr ? nullptr : Find(*device, "attributes");
    const Json* probe = attributes == nullptr ? nullptr : Find(*attributes, "probe");
    const bool kept = probe != nullptr && IsPresent(Find(*probe, "strings"));
    result_.fields.list_attributes = kept ? FieldSupport::kKept : FieldSupport::kDropped;
  }

  // Refused, not dropped, by a server that is older than this effect.
  void AskTaintEffectNone() {
    result_.fields.taint_effect_none = result_.fields.taints;
    if (result_.fields.taints != FieldSupport::kKept) return;
    const auto stored =
        DryRun({{"devices",
                 {{{"name", "probe"}, {"taints", {{{"key", "dra-probe"}, {"effect", "None"}}}}}}}});
    if (stored.ok()) return;
    result_.fields.taint_effect_none =
        absl::IsInvalidArgument(stored.status()) ? FieldSupport::kDropped : FieldSupport::kUnknown;
  }

  kube::ApiClient& api_;
  const std::string driver_name_;
  const std::string node_name_;
  const Call& call_;
  ProbeResult result_;
};

}  // namespace

ProbeResult ProbeServerFields(kube::ApiClient& api, absl::string_view driver_name,
                              absl::string_view node_name, const Call& call) {
  return Prober(api, driver_name, node_name, call).Run();
}

}  // namespace dra::publisher
