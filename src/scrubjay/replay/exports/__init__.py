"""A stretch of a recording in other formats. Each module takes a Clip and yields what goes into a file."""
