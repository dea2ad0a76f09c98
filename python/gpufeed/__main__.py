# SPDX-License-Identifier: Apache-2.0
"""`python -m gpufeed` is the command `gpufeed`."""

import sys

from ._command import main

sys.exit(main())
