"""What the scripts of this folder ask of processes."""
import pathlib


def descendants(pid):
    """Children of a process, and theirs, as numbers."""
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    found = []
    for child in map(int, text.split()):
        found += [child] + descendants(child)
    return found
