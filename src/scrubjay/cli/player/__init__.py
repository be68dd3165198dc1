"""The full-screen player of ``scrubjay replay``.

Textual draws it and is imported nowhere else. Whatever comes from a recording goes through ``text`` before it is
drawn, and nothing of it is ever markup, a link, a title or the clipboard.
"""
