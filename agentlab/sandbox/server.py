"""Entry of the sandbox process: ``python -I -S server.py '<options as JSON>'``.

It runs on the standard library alone and never executes ``agentlab/__init__.py``: the two package names are put in
place here, so that ``agentlab.sandbox.*`` is found beside this file and nothing else of agentlab can be imported.
"""

import os
import sys
import types


def _only_this_folder() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    for name, path in (("agentlab", []), ("agentlab.sandbox", [here])):
        package = types.ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


if __name__ == "__main__":
    _only_this_folder()
    from agentlab.sandbox.serve import main

    sys.exit(main(sys.argv[1]))
