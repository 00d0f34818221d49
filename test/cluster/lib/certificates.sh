#!/usr/bin/env bash
# Makes the credentials of a cluster in the folder given: a certificate authority, the API server's certificate, the key
# of service accounts, and for each component a kubeconfig with the identity that it has on a real cluster, so that the
# real rules of the Node authorizer and of RBAC are in force.
set -euo pipefail
mkdir -p "$1"
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=cluster-ca \
  -keyout ca.key -out ca.crt 2> /dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=kube-apiserver \
  -keyout apiserver.key -out apiserver.csr 2> /dev/null
openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out apiserver.crt -extfile <(
  echo "subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:192.168.77.1"
) 2> /dev/null
openssl genrsa -out sa.key 2048 2> /dev/null

: > tokens.csv
credential() { # NAME USER GROUPS
  local token
  token=$(openssl rand -hex 16)
  echo "$token,$2,$1${3:+,\"$3\"}" >> tokens.csv
  cat > "$1.kubeconfig" <<J
apiVersion: v1
kind: Config
current-context: cluster
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {token: $token}}]
contexts: [{name: cluster, context: {cluster: cluster, user: $1}}]
J
}
credential admin admin system:masters
credential controller-manager system:kube-controller-manager ""
credential scheduler system:kube-scheduler ""
credential kubelet system:node:node1 system:nodes
chmod 600 ./*.key ./*.kubeconfig tokens.csv
