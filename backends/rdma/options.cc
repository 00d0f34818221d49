#include "options.h"

#include <algorithm>
#include <set>

#include "dra/backend/host_path.h"
#include "dra/backend/json_reader.h"
#include "dra/backend/pci.h"
#include "text.h"

namespace rdma {
namespace {

constexpr int64_t kMaxShares = 10000;
constexpr size_t kMaxDomainBytes = 63;  // kubernetes/api:resource/v1, DeviceMaxDomainLength
constexpr char kStandardDomain[] = "resource.kubernetes.io";

std::string ReadDomain(dra::JsonReader& reader, const std::string& key,
                       const std::string& fallback) {
  const auto domain = reader.Optional<std::string>(key);
  if (!domain) return fallback;
  if (*domain == kStandardDomain) {
    reader.Refuse(
        key, "\"" + *domain +
                 "\" holds only what Kubernetes itself defines; take another, such as dra.net");
  }
  bool valid = domain->size() <= kMaxDomainBytes;
  for (size_t begin = 0; begin <= domain->size();) {
    const size_t end = std::min(domain->find('.', begin), domain->size());
    valid = valid && IsDnsLabel(domain->substr(begin, end - begin));
    begin = end + 1;
  }
  if (!valid) {
    reader.Refuse(key, "\"" + *domain + "\" is not a DNS subdomain of at most " +
                           std::to_string(kMaxDomainBytes) + " bytes");
  }
  return *domain;
}

std::vector<std::string> ReadTexts(dra::JsonReader& reader, const std::string& key) {
  std::vector<std::string> texts = reader.List<std::string>(key);
  for (const std::string& text : texts) {
    if (text.empty()) reader.Refuse(key, "has an empty text, which matches nothing");
  }
  return texts;
}

std::vector<std::string> ReadWords(dra::JsonReader& reader, const std::string& key,
                                   const std::set<std::string>& known) {
  std::vector<std::string> words = reader.List<std::string>(key);
  for (const std::string& word : words) {
    if (known.count(word) == 0) {
      reader.Refuse(key,
                    "\"" + word + "\" is not one of " + Join({known.begin(), known.end()}, ", "));
    }
  }
  return words;
}

// "15B3", "0x15b3": "0x15b3", as sysfs writes it.
std::vector<std::string> ReadIds(dra::JsonReader& reader, const std::string& key) {
  constexpr size_t kDigits = 4;
  std::vector<std::string> ids;
  for (const std::string& text : reader.List<std::string>(key)) {
    std::string id = Lower(text);
    if (id.rfind("0x", 0) == 0) id = id.substr(2);
    if (id.size() != kDigits || id.find_first_not_of("0123456789abcdef") != std::string::npos) {
      reader.Refuse(key, "\"" + text + "\" is no PCI id of four hexadecimal digits, such as 15b3");
    }
    ids.push_back("0x" + id);
  }
  return ids;
}

std::vector<std::string> ReadAddresses(dra::JsonReader& reader, const std::string& key) {
  std::vector<std::string> globs = ReadTexts(reader, key);
  for (std::string& glob : globs) {
    glob = Lower(glob);
    const bool has_wildcard = glob.find_first_of("*?") != std::string::npos;
    if (has_wildcard ? glob.find_first_not_of("0123456789abcdef:.*?") != std::string::npos
                     : !dra::ParsePciAddress(glob)) {
      reader.Refuse(
          key,
          "\"" + glob +
              "\" is no PCI address with its domain (0000:8d:00.0), nor a glob of one (*:8d:*)");
    }
  }
  return globs;
}

// A link's kind is any word of the kernel's; these can be a NIC.
const std::set<std::string>& Kinds() {
  static const std::set<std::string> kKinds = {
      "bond",   "device",      "dummy",   "ipoib",     "ipvlan",          "ipvtap",
      "macsec", "macvlan",     "macvtap", "netdevsim", "netkit",          "physical",
      "rmnet",  "subFunction", "team",    "veth",      "virtualFunction", "vlan"};
  return kKinds;
}

NicMatch ReadMatch(dra::JsonReader& reader) {
  NicMatch match;
  match.names = ReadTexts(reader, "names");
  match.addresses = ReadAddresses(reader, "pciAddresses");
  match.pf_names = ReadTexts(reader, "pfNames");
  match.vendors = ReadIds(reader, "vendors");
  match.devices = ReadIds(reader, "devices");
  match.drivers = ReadTexts(reader, "drivers");
  match.kinds = ReadWords(reader, "kinds", Kinds());
  match.link_layers = ReadWords(reader, "linkLayers", {"ethernet", "infiniband"});
  match.rdma = reader.Optional<bool>("rdma");
  return match;
}

bool MatchesAll(const NicMatch& match) {
  return match.names.empty() && match.addresses.empty() && match.pf_names.empty() &&
         match.vendors.empty() && match.devices.empty() && match.drivers.empty() &&
         match.kinds.empty() && match.link_layers.empty() && !match.rdma;
}

std::vector<NicMatch> ReadMatches(dra::JsonReader& reader, const std::string& key) {
  std::vector<NicMatch> matches;
  reader.Each(key, [&](dra::JsonReader& rule) { matches.push_back(ReadMatch(rule)); });
  for (size_t i = 0; i < matches.size(); ++i) {
    if (!MatchesAll(matches[i])) continue;
    reader.Refuse(
        key + "[" + std::to_string(i) + "]",
        "matches everything, as it names nothing: give at least one field, or leave the rule out");
  }
  return matches;
}

}  // namespace

Options ReadOptions(const nlohmann::json& config) {
  Options options;
  dra::JsonReader::Read(config, "config", [&](dra::JsonReader& reader) {
    options.kernel_root = dra::ReadHostPath(reader, "kernelRoot", options.kernel_root);
    options.dev_root = dra::ReadHostPath(reader, "devRoot", options.dev_root);
    options.attribute_domain = ReadDomain(reader, "attributeDomain", options.attribute_domain);
    options.include = ReadMatches(reader, "include");
    options.exclude = ReadMatches(reader, "exclude");
    options.allow_default_route =
        reader.Optional<bool>("allowDefaultRoute").value_or(options.allow_default_route);
    reader.Each("shared", [&](dra::JsonReader& rule) {
      ShareRule share;
      share.match = ReadMatch(rule);
      share.shares = rule.Required("shares", 1, kMaxShares);
      options.shared.push_back(std::move(share));
    });
    options.attach = reader
                         .OptionalEnum<AttachBy>("attach", {{"hook", AttachBy::kHook},
                                                            {"netDevices", AttachBy::kNetDevices},
                                                            {"none", AttachBy::kNone}})
                         .value_or(options.attach);
  });
  return options;
}

}  // namespace rdma
