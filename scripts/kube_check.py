"""The manifests of packaging/kubernetes, strictly: a field that a schema does not have is an error.

Place in the flow: `scripts/kube-check.sh` gets helm and the schemas. In: helm, the program if it is built, the schemas of custom
resources. Out: a line for each resource; exit code 1 if one is wrong.
Invariant: the check proves itself first: a manifest with a misspelt field has to be refused.
"""

import copy
import pathlib
import re
import subprocess
import sys

import jsonschema
import kubernetes_validate
import yaml

KUBERNETES = "1.37"
FOLDER = pathlib.Path("packaging/kubernetes")
# What the chart is rendered with: nothing, and everything that is off or empty.
VALUES = [
    [],
    [
        "autoscaling.enabled=true", "networkPolicy.enabled=true", "serviceMonitor.enabled=true", "podDisruptionBudget.maxUnavailable=2",
        "handlers.configMap=iris-handler", "models.image=registry.example/models/iris:1", "imagePullSecrets[0].name=pull",
        "env[0].name=MODELHOST_LOG_LEVEL", "env[0].value=warn", "envFrom[0].secretRef.name=secrets", "serviceAccountName=models",
        "networkPolicy.egress[0].ports[0].port=443", "networkPolicy.from[0].podSelector.matchLabels.app=web",
        "podLabels.team=vision", "podAnnotations.note=x", "nodeSelector.pool=gpu", "serviceMonitor.labels.release=prometheus",
    ],
    ["models.claim=models", "replicas=1", "image.tag=next"],
]


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads a lone `=`, which YAML 1.1 has a meaning of its own for, as the text that Kubernetes reads."""


Loader.add_constructor("tag:yaml.org,2002:value", Loader.construct_yaml_str)


def documents(text):
    """The documents of a YAML text that are not empty."""
    return [document for document in yaml.load_all(text, Loader) if document]


def strict(schema):
    """A structural schema as JSON Schema, in which fields that it does not name are errors."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: strict(inner) for name, inner in value.items()}
        elif key in ("enum", "default", "pattern", "required"):
            made[key] = value
        elif not key.startswith("x-kubernetes") and key != "nullable":
            made[key] = strict(value)
    if schema.get("nullable") and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
    if "properties" in made and not is_open and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def custom_resources(paths):
    """The strict schemas of all custom resources in these files and folders, by version and kind."""
    schemas = {}
    for path in map(pathlib.Path, paths):
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            for resource in documents(file.read_text()):
                if resource.get("kind") != "CustomResourceDefinition":
                    continue
                spec = resource["spec"]
                for version in spec["versions"]:
                    schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
                    schema["properties"].pop("metadata", None)
                    schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = strict(schema)
    return schemas


def problem(resource, schemas):
    """What is wrong with a resource; None if nothing is."""
    key = resource["apiVersion"], resource["kind"]
    try:
        if key in schemas:
            body = {name: value for name, value in resource.items() if name != "metadata"}
            jsonschema.Draft7Validator(schemas[key]).validate(body)
        else:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        path = "/".join(map(str, getattr(error, "absolute_path", getattr(error, "path", []))))
        return f"{getattr(error, 'message', error)} at {path}"[:400]
    return None


def containers(resource):
    """The containers of a pod's template, wherever it is."""
    spec = resource.get("spec", {})
    return spec.get("containers") or spec.get("template", {}).get("spec", {}).get("containers", [])


def main(helm, host, *crds):
    schemas = custom_resources(crds)
    resources = []
    for file in sorted(FOLDER.glob("*.yaml")):
        resources += [(file.name, resource) for resource in documents(file.read_text())]
    for number, values in enumerate(VALUES):
        sets = [argument for value in values for argument in ("--set", value)]
        rendered = subprocess.run([helm, "template", "it", FOLDER / "chart", *sets], check=True, capture_output=True, text=True).stdout
        resources += [(f"chart {number}", resource) for resource in documents(rendered)]
    failures = 0
    for source, resource in resources:
        wrong = problem(resource, schemas)
        name = f"{source}: {resource['kind']} {resource['metadata']['name']}"
        print(f"{'failed' if wrong else 'ok':<6}  {name}" + (f": {wrong}" if wrong else ""))
        failures += bool(wrong)

    # A check that refuses nothing proves nothing.
    for kind in ("Deployment", "ClusterServingRuntime", "InferenceService", "ServiceMonitor"):
        broken = copy.deepcopy(next(resource for _, resource in resources if resource["kind"] == kind))
        broken["spec"]["misspelt"] = 1
        if problem(broken, schemas) is None:
            print(f"failed  a {kind} with a field that there is not passes")
            failures += 1

    flags = {flag for _, resource in resources for container in containers(resource) for argument in container.get("args", [])
             for flag in re.findall(r"^--[a-z-]+", argument)}
    if pathlib.Path(host).is_file():
        known = subprocess.run([host, "serve", "--help"], check=True, capture_output=True, text=True).stdout
        for flag in sorted(flags - set(re.findall(r"--[a-z0-9-]+", known))):
            print(f"failed  `host serve` has no {flag}")
            failures += 1
    else:
        print(f"note    {host} is not built: {', '.join(sorted(flags))} were not looked up")
    sys.exit(failures > 0)


main(*sys.argv[1:])
