#include "dra/kube/kube_config.h"

#include <yaml-cpp/yaml.h>

#include <exception>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"

namespace dra::kube {
namespace {

constexpr uint64_t kMaxKubeConfigBytes = 4u << 20;

// One kubeconfig while it is read: adds the file's name to every error.
class Reader {
 public:
  explicit Reader(absl::string_view path) : path_(path) {}

  absl::Status Invalid(absl::string_view text) const {
    return absl::InvalidArgumentError(absl::StrCat("kubeconfig ", path_, ": ", text));
  }

  // The string at node[key], "" if absent.
  absl::StatusOr<std::string> String(const YAML::Node& node, const char* key,
                                     absl::string_view where) const {
    const YAML::Node value = node[key];
    if (!value.IsDefined() || value.IsNull()) return std::string();
    if (!value.IsScalar()) return Invalid(absl::StrCat(where, ".", key, " must be a string"));
    return value.Scalar();
  }

  absl::StatusOr<bool> Bool(const YAML::Node& node, const char* key,
                            absl::string_view where) const {
    DRA_ASSIGN_OR_RETURN(const std::string text, String(node, key, where));
    if (text.empty() || text == "false") return false;
    if (text == "true") return true;
    return Invalid(absl::StrCat(where, ".", key, " must be true or false, is '", text, "'"));
  }

  // A file name, made absolute against the kubeconfig's folder.
  absl::StatusOr<std::string> File(const YAML::Node& node, const char* key,
                                   absl::string_view where) const {
    DRA_ASSIGN_OR_RETURN(std::string name, String(node, key, where));
    if (name.empty() || name[0] == '/') return name;
    return JoinPath(DirectoryName(path_), name);
  }

  // Base64 of a PEM text.
  absl::StatusOr<std::string> Data(const YAML::Node& node, const char* key,
                                   absl::string_view where) const {
    DRA_ASSIGN_OR_RETURN(const std::string text, String(node, key, where));
    std::string data;
    // The text itself may be a key: it is never repeated in the error.
    if (!absl::Base64Unescape(text, &data))
      return Invalid(absl::StrCat(where, ".", key, " is not base64"));
    return data;
  }

  // The entry called `name` in the list `list`, as its member `member` (a map).
  absl::StatusOr<YAML::Node> Entry(const YAML::Node& root, const char* list, const char* member,
                                   absl::string_view name) const {
    const YAML::Node entries = root[list];
    std::vector<std::string> names;
    if (entries.IsDefined() && entries.IsSequence()) {
      for (const YAML::Node& entry : entries) {
        if (!entry.IsMap() || !entry["name"].IsDefined() || !entry["name"].IsScalar()) continue;
        names.push_back(entry["name"].Scalar());
        if (absl::string_view(names.back()) != name) continue;
        const YAML::Node value = entry[member];
        if (value.IsDefined() && value.IsMap()) return value;
        return Invalid(absl::StrCat(list, " entry '", name, "' has no ", member));
      }
    }
    return Invalid(absl::StrCat("no ", member, " '", name, "' in ", list, " (there are: ",
                                names.empty() ? "none" : absl::StrJoin(names, ", "), ")"));
  }

  absl::StatusOr<ExecPlugin> Exec(const YAML::Node& node, absl::string_view where) const {
    if (!node.IsMap()) return Invalid(absl::StrCat(where, " must be a map"));
    ExecPlugin plugin;
    DRA_ASSIGN_OR_RETURN(plugin.api_version, String(node, "apiVersion", where));
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1") {
      return Invalid(
          absl::StrCat(where, ".apiVersion '", plugin.api_version,
                       "' is not supported, use client.authentication.k8s.io/v1 or v1beta1"));
    }
    DRA_ASSIGN_OR_RETURN(plugin.command, String(node, "command", where));
    if (plugin.command.empty()) return Invalid(absl::StrCat(where, ".command is missing"));
    // As kubectl: a name with a slash is relative to the kubeconfig, a bare name is looked up in PATH.
    if (plugin.command[0] != '/' && plugin.command.find('/') != std::string::npos) {
      plugin.command = JoinPath(DirectoryName(path_), plugin.command);
    }
    DRA_ASSIGN_OR_RETURN(plugin.install_hint, String(node, "installHint", where));
    if (const YAML::Node args = node["args"]; args.IsDefined() && !args.IsNull()) {
      if (!args.IsSequence()) return Invalid(absl::StrCat(where, ".args must be a list"));
      for (const YAML::Node& arg : args) {
        if (!arg.IsScalar()) return Invalid(absl::StrCat(where, ".args must hold strings"));
        plugin.args.push_back(arg.Scalar());
      }
    }
    if (const YAML::Node env = node["env"]; env.IsDefined() && !env.IsNull()) {
      if (!env.IsSequence()) return Invalid(absl::StrCat(where, ".env must be a list"));
      for (const YAML::Node& variable : env) {
        if (!variable.IsMap()) return Invalid(absl::StrCat(where, ".env must hold {name, value}"));
        DRA_ASSIGN_OR_RETURN(std::string name, String(variable, "name", where));
        DRA_ASSIGN_OR_RETURN(std::string value, String(variable, "value", where));
        if (name.empty()) return Invalid(absl::StrCat(where, ".env entry has no name"));
        plugin.env.emplace_back(std::move(name), std::move(value));
      }
    }
    return plugin;
  }

  absl::Status ReadCluster(const YAML::Node& cluster, absl::string_view where,
                           ClusterConfig& config) const {
    DRA_ASSIGN_OR_RETURN(config.server, String(cluster, "server", where));
    if (config.server.empty()) return Invalid(absl::StrCat(where, ".server is missing"));
    DRA_ASSIGN_OR_RETURN(config.ca_data, Data(cluster, "certificate-authority-data", where));
    DRA_ASSIGN_OR_RETURN(config.ca_file, File(cluster, "certificate-authority", where));
    DRA_ASSIGN_OR_RETURN(config.insecure_skip_tls_verify,
                         Bool(cluster, "insecure-skip-tls-verify", where));
    DRA_ASSIGN_OR_RETURN(config.tls_server_name, String(cluster, "tls-server-name", where));
    DRA_ASSIGN_OR_RETURN(config.proxy_url, String(cluster, "proxy-url", where));
    return absl::OkStatus();
  }

  absl::Status ReadUser(const YAML::Node& user, absl::string_view where,
                        ClusterConfig& config) const {
    for (const char* unsupported :
         {"username", "password", "auth-provider", "as", "as-uid", "as-groups"}) {
      if (user[unsupported].IsDefined()) {
        return Invalid(
            absl::StrCat(where, ".", unsupported,
                         " is not supported, use a token, a client certificate or an exec plugin"));
      }
    }
    DRA_ASSIGN_OR_RETURN(config.token, String(user, "token", where));
    DRA_ASSIGN_OR_RETURN(config.token_file, File(user, "tokenFile", where));
    DRA_ASSIGN_OR_RETURN(config.client_certificate_data,
                         Data(user, "client-certificate-data", where));
    DRA_ASSIGN_OR_RETURN(config.client_certificate_file, File(user, "client-certificate", where));
    DRA_ASSIGN_OR_RETURN(config.client_key_data, Data(user, "client-key-data", where));
    DRA_ASSIGN_OR_RETURN(config.client_key_file, File(user, "client-key", where));
    if (const YAML::Node exec = user["exec"]; exec.IsDefined() && !exec.IsNull()) {
      DRA_ASSIGN_OR_RETURN(config.exec, Exec(exec, absl::StrCat(where, ".exec")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ClusterConfig> Read(const YAML::Node& root,
                                     absl::string_view wanted_context) const {
    if (!root.IsMap()) return Invalid("must be a YAML map");
    std::string context_name(wanted_context);
    if (context_name.empty()) {
      DRA_ASSIGN_OR_RETURN(context_name, String(root, "current-context", "kubeconfig"));
      if (context_name.empty())
        return Invalid("current-context is missing and no context was named");
    }
    DRA_ASSIGN_OR_RETURN(const YAML::Node context,
                         Entry(root, "contexts", "context", context_name));
    const std::string where_context = absl::StrCat("context '", context_name, "'");
    ClusterConfig config;
    config.source = absl::StrCat("kubeconfig ", path_, ", context ", context_name);
    DRA_ASSIGN_OR_RETURN(const std::string cluster_name, String(context, "cluster", where_context));
    DRA_ASSIGN_OR_RETURN(const std::string user_name, String(context, "user", where_context));
    DRA_ASSIGN_OR_RETURN(const std::string namespace_name,
                         String(context, "namespace", where_context));
    if (!namespace_name.empty()) config.namespace_name = namespace_name;
    if (cluster_name.empty()) return Invalid(absl::StrCat(where_context, ".cluster is missing"));
    DRA_ASSIGN_OR_RETURN(const YAML::Node cluster,
                         Entry(root, "clusters", "cluster", cluster_name));
    DRA_RETURN_IF_ERROR(ReadCluster(cluster, absl::StrCat("cluster '", cluster_name, "'"), config));
    // A context without a user is valid: some API servers sit behind a socket that needs none.
    if (!user_name.empty()) {
      DRA_ASSIGN_OR_RETURN(const YAML::Node user, Entry(root, "users", "user", user_name));
      DRA_RETURN_IF_ERROR(ReadUser(user, absl::StrCat("user '", user_name, "'"), config));
    }
    if (absl::Status valid = ValidateClusterConfig(config); !valid.ok())
      return Invalid(valid.message());
    return config;
  }

 private:
  const std::string path_;
};

}  // namespace

absl::StatusOr<ClusterConfig> LoadKubeConfig(FileSystem& fs, absl::string_view path,
                                             absl::string_view context) {
  absl::StatusOr<std::string> text = fs.ReadFile(path, kMaxKubeConfigBytes);
  if (!text.ok()) return Annotate(text.status(), "kubeconfig");
  const Reader reader(path);
  try {
    return reader.Read(YAML::Load(*text), context);
  } catch (const YAML::ParserException& error) {
    // Only the place: the library's text may quote the line, which may hold a token.
    return reader.Invalid(absl::StrCat("not YAML at line ", error.mark.line + 1));
  } catch (const std::exception&) {
    return reader.Invalid("not a kubeconfig (YAML with clusters, contexts and users)");
  }
}

}  // namespace dra::kube
