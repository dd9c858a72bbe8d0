"""On the path of pip's build backends: each package's backend is replaced by `sdist_only`, so that downloading builds nothing.

pip asks a source distribution's backend for its metadata even if it only downloads; numpy's answers after minutes of compiling.
"""

import os

# The second is the name in pip before 23.3.
for prefix in ("_PYPROJECT_HOOKS", "PEP517"):
    if f"{prefix}_BUILD_BACKEND" in os.environ:
        os.environ[f"{prefix}_BUILD_BACKEND"] = "sdist_only"
        os.environ.pop(f"{prefix}_BACKEND_PATH", None)
