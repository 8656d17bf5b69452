"""`python -m lnattn`: the command line."""

import sys

from lnattn.cli.main import main

sys.exit(main())
