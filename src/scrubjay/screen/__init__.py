"""Bytes to a screen, a screen to a keyframe, a keyframe to whatever shows it. No I/O.

``ghostty`` is the one module that knows the terminal engine, and only screen workers load it; everything
else reads the engine's snapshots, which are plain bytes.
"""
