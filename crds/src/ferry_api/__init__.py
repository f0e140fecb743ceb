"""The InferenceService and the runtime's configuration, in Python.

Start at `manifest.load_manifest` (YAML → `resource.InferenceService`), `translation.to_runtime_config`
(→ `runtime_config.RuntimeConfig`) and `config_documents` (↔ text). `spec` and `status` are the
source of the CRD, which `crd` makes from them; `limits` lists what this release refuses.
"""
