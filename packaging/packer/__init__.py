"""Makes leafd's packages of packaging/package.toml. packaging/build is the command; each module here is one step of it.

declaration    what package.toml says, with types
toolchain      leafd's machine code, for this machine and for others
libraries      the pinned Python libraries, from wheels
tree           all files as they are installed
materials      licences and the bill of materials
deb, rpm       a tree packed
"""
