"""The process that owns one pod's pseudo-terminal and writes its tape.

It imports the standard library and ``scrubjay.tape`` only, starts in tens of milliseconds and stays
below 16 MB, because there is one for every pod and it must outlive everything else. Its protocol is
in ``protocol``; the other side of it is ``scrubjay.pods``.
"""
