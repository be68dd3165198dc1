"""Any instant of any tape: screen workers, keyframes on disk, seek, play and search."""
