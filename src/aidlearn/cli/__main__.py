"""``python -m aidlearn.cli``."""

import sys

from aidlearn.cli import main

sys.exit(main())
