"""Start a keeper: ``python -I -S …/keeper/__main__.py POD_FOLDER READY_FD LOCK_FD``.

The folder holds ``pod.json``, written by whoever starts the pod. READY_FD is told in one line of
JSON whether the agent runs. LOCK_FD is held for as long as the keeper lives.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Nobody's child: whoever started it may live on for years and never wait for it.
    if os.fork():
        os._exit(0)
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

    from scrubjay.keeper.start import start

    start(sys.argv[1], ready=int(sys.argv[2]), lock=int(sys.argv[3]))
