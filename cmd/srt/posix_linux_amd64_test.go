package main

import "golang.org/x/sys/unix"

// legacyCreat is creat(2), which newer architectures do without.
const legacyCreat = unix.SYS_CREAT
