"""Makes leafd's packages of packaging/package.toml, and repositories of them. The commands are packaging/build and
packaging/publish; each module here is one step.

declaration    what package.toml says, with types
toolchain      leafd's machine code, for this machine and for others
libraries      the pinned Python libraries, from wheels
tree           all files as they are installed
materials      licences and the bill of materials
deb, rpm       a tree packed

signing        OpenPGP signatures
apt, yum       the repositories
image          the container image
publishing     what a reader of the repositories is given
"""
