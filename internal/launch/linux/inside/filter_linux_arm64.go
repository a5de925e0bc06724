package inside

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// foreignNumbers is empty: 64-bit ARM has no second table under one audit architecture.
func foreignNumbers() []unix.SockFilter { return nil }

// legacyCalls is empty but for renameat: 64-bit ARM was born with the *at calls.
var legacyCalls = legacyNumbers{renameat: unix.SYS_RENAMEAT}
