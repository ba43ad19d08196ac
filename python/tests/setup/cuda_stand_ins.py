"""Lets a torch from PyPI be imported on a machine without CUDA, for tests only.

That wheel is linked to CUDA's libraries, several gigabytes that a machine without a GPU has no use for. This makes libraries
of the same names in which every function does nothing but return 100, CUDA's "no device", or a text that says so: torch then
finds none, and works on the CPU. Users do not need it: `pip install torch` brings the real ones.

    python cuda_stand_ins.py SITE_PACKAGES        needs cc, nm and readelf
"""

import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: How the functions of CUDA's libraries begin.
OF_CUDA = re.compile(r"_*(cu|nv|nccl)")


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def function(name: str) -> str:
    if name.endswith(("String", "Name")):
        return f'const char *{name}(void) {{ return "no CUDA here, only a stand-in for tests"; }}\n'
    return f"long {name}(void) {{ return 100; }}\n"


def main() -> None:
    folder = Path(sys.argv[1]) / "torch" / "lib"
    libraries = [path for path in folder.iterdir() if ".so" in path.name]
    symbols: dict[str, set[str]] = collections.defaultdict(set)  # by version
    defined: set[str] = set()
    needed: set[str] = set()
    for library in libraries:
        needed.update(re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-dW", library)))
        for line in output("nm", "-D", "--with-symbol-versions", library).splitlines():
            *_, kind, symbol = line.split()
            name, _, version = symbol.partition("@")
            if kind not in "Uw":
                defined.add(name)
            elif OF_CUDA.match(name):
                symbols[version.strip("@")].add(name)
    there = output("ldconfig", "-p")
    missing = sorted(name for name in needed if not (folder / name).exists() and f"\t{name} " not in there)
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch, "all.c"), Path(scratch, "all.map")
        names = sorted(set().union(*symbols.values()) - defined)
        source.write_text("".join(map(function, names)))
        versions.write_text(
            "".join(f"{version} {{ global: {'; '.join(sorted(of))}; }};\n" for version, of in symbols.items() if version)
        )
        for name in missing:
            # All have everything: it does not matter then which library a function is looked for in.
            options = ["-shared", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}"]
            output("cc", *options, "-o", folder / name, source)
    print(f"{len(missing)} libraries with {len(names)} functions that do nothing: {' '.join(missing)}")


main()
