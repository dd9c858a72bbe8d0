"""The crates that a package is linked with."""


def linked(metadata: dict, root: str) -> dict[str, list[str]]:
    """Of each package that `root` links, itself among them, those that it needs: ids of `cargo metadata`."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, waiting = {}, [root]
    while waiting:
        package = waiting.pop()
        if package not in found:
            # A dependency of kind `null` is linked; the others are for building or testing.
            found[package] = [
                dependency["pkg"]
                for dependency in nodes[package]["deps"]
                if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            ]
            waiting += found[package]
    return found
