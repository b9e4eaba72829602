"""``python -m agentlab`` is the command line."""

import sys

from agentlab.cli import main

sys.exit(main())
